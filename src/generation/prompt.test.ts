import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../pool/served-model.ts';
import type { GenerationError } from './generation-error.ts';
import { type Gap, infillPrompt } from './prompt.ts';

const marks = { prefix: 1, suffix: 2, middle: 3, repository: undefined, file: undefined, endIds: [1, 2, 3] };
const tokenizer = { addBos: false, bosId: 9, longestToken: 8 };
const spec = { contextLength: 100 };

/** Letters are tokens here; marks are below ten. */
const encode = async (text: string) => Int32Array.from(text, (letter) => letter.charCodeAt(0));

async function prompt(gap: Partial<Gap>, model: object = {}): Promise<string> {
  const whole = { name: 'm', tokenizer, spec, fillInMiddle: marks, ...model } as unknown as ServedModel;
  const given = { prefix: 'ab', suffix: 'yz', suffixName: 'suffix', ...gap };
  const ids = await infillPrompt(given, whole, encode, 'prompt', undefined);
  return Array.from(ids, (id) => (id < 10 ? String(id) : String.fromCharCode(id))).join('');
}

describe('the prompt of a gap', () => {
  it('has what is before and behind it, each behind its token, and how the answer begins', async () => {
    expect(await prompt({})).toBe('1ab2yz3');
    expect(await prompt({ suffix: '', begun: 'c' })).toBe('1ab23c');
    expect(await prompt({}, { tokenizer: { ...tokenizer, addBos: true } })).toBe('91ab2yz3');
  });

  it('begins with the suffix where the model has no token for the middle', async () => {
    expect(await prompt({ begun: 'c' }, { fillInMiddle: { ...marks, middle: undefined } })).toBe('2yz1abc');
  });

  it('has other files ahead, by name where there is a token for files', async () => {
    const files = [{ filename: 'f', text: 'k' }];
    expect(await prompt({ files })).toBe('\n\nk1ab2yz3');
    const fillInMiddle = { ...marks, repository: 4, file: 5 };
    expect(await prompt({ files }, { fillInMiddle })).toBe('4project\n5f\nk5current\n1ab2yz3');
  });

  it('is refused for a model that knows no gaps, and where it cannot fit', async () => {
    const refusal = async (gap: Partial<Gap>, model?: object) =>
      prompt(gap, model).then(expect.fail, (error: GenerationError) => error);
    expect(await refusal({}, { fillInMiddle: undefined })).toMatchObject({
      parameter: 'suffix',
      message: expect.stringContaining("'m' has no tokens for filling in the middle"),
    });
    expect(await refusal({ suffix: 'x'.repeat(900) })).toMatchObject({ code: 'context_length_exceeded' });
  });
});
