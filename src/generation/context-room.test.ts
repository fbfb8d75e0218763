import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../pool/served-model.ts';
import { type SamplingRequest, validateSampling } from '../sampling/parameters.ts';
import { checkTextFits, fitToContext, roomOf } from './context-room.ts';
import type { GenerationError } from './generation-error.ts';
import { ownNames } from './sampling-settings.ts';

const names = { ...ownNames, prompt: 'ids' };

function fitted(request: SamplingRequest, promptTokens: number, room: number) {
  const checked = validateSampling(request, { vocabSize: 10, freshSeed: { low: 0, high: 0 } });
  if (!checked.ok) throw new Error(checked.problem);
  return fitToContext(checked.parameters, promptTokens, room, names);
}

function refusal(act: () => unknown): Pick<GenerationError, 'code' | 'parameter' | 'message'> {
  try {
    act();
  } catch (error) {
    return error as GenerationError;
  }
  throw new Error('it was not refused');
}

describe('the room of a model', () => {
  const room = (contextLength: number, blockCount: number) =>
    roomOf({ spec: { contextLength }, blockCount } as ServedModel);

  it('is its context, or what its blocks hold where that is less', () => {
    expect(room(4096, 1000)).toBe(4096);
    expect(room(4096, 10)).toBe(320);
  });
});

describe('fitting to the context', () => {
  it('cuts an answer to what its prompt leaves, and leaves shorter ones alone', () => {
    expect(fitted({ maxTokens: 50 }, 90, 100).maxTokens).toBe(10);
    expect(fitted({ maxTokens: 5 }, 90, 100).maxTokens).toBe(5);
    expect(fitted({}, 90, 100).maxTokens).toBeUndefined();
  });

  it.each([
    ['an empty prompt', {}, 0, 'ids', 'invalid_value'],
    ['a prompt that leaves no room', {}, 100, 'ids', 'context_length_exceeded'],
    ['a least length that does not fit', { minTokens: 11 }, 90, 'minTokens', 'context_length_exceeded'],
  ])('refuses %s by its name', (_, request, promptTokens, parameter, code) => {
    expect(refusal(() => fitted(request, promptTokens, 100))).toMatchObject({ parameter, code });
  });
});

describe('a look at a text before it is encoded', () => {
  const model = { spec: { contextLength: 100 }, tokenizer: { longestToken: 8 } } as ServedModel;

  it('refuses only what no encoding could make fit', () => {
    expect(() => checkTextFits('x'.repeat(99 * 8), model, 'prompt')).not.toThrow();
    expect(refusal(() => checkTextFits('x'.repeat(99 * 8 + 1), model, 'prompt'))).toMatchObject({
      code: 'context_length_exceeded',
      parameter: 'prompt',
      message: expect.stringMatching(/maximum context length is 100 tokens.*793 characters, 100 tokens/),
    });
  });

  it('refuses nothing where a token may swallow any amount of text', () => {
    const tokenizer = { longestToken: Number.POSITIVE_INFINITY };
    const greedy = { ...model, tokenizer } as ServedModel;
    expect(() => checkTextFits('x'.repeat(1e6), greedy, 'prompt')).not.toThrow();
  });
});
