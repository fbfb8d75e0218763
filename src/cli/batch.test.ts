import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { addBatch } from './batch.ts';
import { addGenerate } from './generate.ts';
import { UsageError } from './usage-error.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-batch-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function batch(lines: readonly (object | string)[], ...words: string[]) {
  const prompts = join(folder, 'prompts.jsonl');
  writeFileSync(
    prompts,
    lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
  );
  const args = ['batch', '--model', embeddedModelPath, '--prompts', prompts, '--kv-blocks', '256', ...words];
  return runCommand(addBatch, args);
}

const parsed = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('chairlift batch', () => {
  it('answers texts, ids and conversations in their order, each as `generate` would alone', async () => {
    const ids = [300, 301, 302];
    const { output, notes, error } = await batch([
      { id: 'text', prompt: 'Once upon a time', max_tokens: 6 },
      { ids, max_tokens: 4, ignore_eos: true },
      { id: 3, messages: [{ role: 'user', content: 'What is 1 + 1?' }] },
    ]);
    expect(error).toBeUndefined();
    expect(notes).toContain('3 prompts');
    const [text, tokens, chat] = parsed(output);
    const words = ['--prompt', 'Once upon a time', '--max-tokens', '6', '--json'];
    const alone = await runCommand(addGenerate, ['generate', '--model', embeddedModelPath, ...words]);
    expect({ ids: text.ids, text: text.text, finish_reason: text.finish_reason }).toEqual(
      JSON.parse(alone.output),
    );
    expect(text).toMatchObject({ id: 'text', usage: { completion_tokens: 6 } });
    expect(tokens.ids).toHaveLength(4);
    expect(tokens.usage.prompt_tokens).toBe(3);
    expect(chat).toMatchObject({ id: 3, text: '1 + 1 = 2.', finish_reason: 'stop' });
  });

  it('tells of a prompt that cannot be answered in its own line, and answers the others', async () => {
    const file = join(folder, 'answers.jsonl');
    const { output } = await batch(
      [
        { ids: Array(5000).fill(5) },
        { prompt: 'Once', max_tokens: 2 },
        { ids: [-1] },
        { prompt: '' },
        { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      ],
      '--output',
      file,
    );
    expect(output).toBe('');
    const [long, good, ...bad] = parsed(readFileSync(file, 'utf8'));
    expect(long).toMatchObject({
      finish_reason: 'error',
      error: expect.stringContaining('5000 tokens'),
      ids: [],
    });
    expect(good).toMatchObject({ finish_reason: 'length', usage: { completion_tokens: 2 } });
    for (const line of bad) expect(line).toMatchObject({ finish_reason: 'error', text: '' });
  });

  it.each<[string | object, RegExp]>([
    ['{"prompt":', /line 1: not JSON/],
    [{ prompt: 'a', temperature: -1 }, /line 1: temperature: /],
    [{ prompt: 'a', top_p: 2 }, /line 1: top_p: /],
    [{ prompt: 'a', tmperature: 1 }, /line 1: tmperature is not known/],
    [{ messages: [{ role: 'poet', content: 'x' }] }, /line 1: messages\[0\]\.role: /],
    [{ max_tokens: 3 }, /line 1: give a "prompt"/],
  ])('refuses the whole for a line that is wrong: %j', async (line, message) => {
    const { error } = await batch([line]);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).toMatch(message);
  });
});
