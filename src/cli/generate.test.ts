import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { addGenerate } from './generate.ts';
import { UsageError } from './usage-error.ts';

const generate = (...words: string[]) =>
  runCommand(addGenerate, ['generate', '--model', embeddedModelPath, ...words]);

const folder = mkdtempSync(join(tmpdir(), 'chairlift-generate-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

describe('chairlift generate', () => {
  it('continues a text as it comes, or as JSON, and both are the same', async () => {
    const words = ['--prompt', 'Once upon a time', '--max-tokens', '8'];
    const shown = await generate(...words);
    expect(shown).toMatchObject({
      error: undefined,
      notes: expect.stringMatching(/generated 8 tokens.*length/),
    });
    expect(shown.output).toMatch(/^ there was a /);
    const { ids, text, finish_reason } = JSON.parse((await generate(...words, '--json')).output);
    expect(`${text}\n`).toBe(shown.output);
    expect(ids).toHaveLength(8);
    expect(finish_reason).toBe('length');
  });

  it('counts the token that ends an answer and does not show it', async () => {
    const prompt = '<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n';
    const { ids, text, finish_reason } = JSON.parse((await generate('--prompt', prompt, '--json')).output);
    expect({ text, finish_reason }).toEqual({ text: '1 + 1 = 2.', finish_reason: 'stop' });
    const again = JSON.parse(
      (await generate('--prompt', prompt, '--json', '--max-tokens', '500', '--ignore-eos')).output,
    );
    expect(again.ids.slice(0, ids.length)).toEqual(ids);
    expect(again.finish_reason).toBe('length');
  });

  it('writes what a schema, a regular expression or a grammar allows', async () => {
    const continued = async (...words: string[]) => {
      const { error, output } = await generate('--prompt', 'Once there was', '--json', ...words);
      expect(error).toBeUndefined();
      return JSON.parse(output).text;
    };
    const schema = file('schema.json', '{ "type": "array", "items": { "type": "integer" }, "maxItems": 3 }');
    expect(Array.isArray(JSON.parse(await continued('--schema', schema)))).toBe(true);
    expect(await continued('--regex', ' (a fox|an owl)')).toMatch(/^ (a fox|an owl)$/);
    expect(await continued('--grammar', file('g.gbnf', 'root ::= " " [0-9]+ "!"'))).toMatch(/^ \d+!$/);
  });

  it.each([
    [['--prompt', 'a', '--regex', '('], /^--regex: /],
    [['--prompt', 'a', '--regex', 'a', '--schema', 'b'], /^give one of --schema, --regex and --grammar/],
    [['--prompt', 'a', '--schema', 'nowhere.json'], /nowhere\.json cannot be read/],
    [['--prompt', ''], /^--prompt: is empty/],
    [['--ids', '99999999'], /^--ids: 99999999 is no token id/],
    [
      ['--ids', Array(5000).fill('5').join(',')],
      /maximum context length is 4096 tokens.*the prompt has 5000 tokens/,
    ],
    [['--prompt', 'a', '--temperature', '500'], /^--temperature: /],
    [[], /give either --prompt or --ids/],
  ])('refuses %j in a line', async (words, message) => {
    const { error, output } = await generate(...words);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).toMatch(message);
    expect(output).toBe('');
  });
});
