// `chairlift logits --messages`: a conversation with images, by files beside it.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addLogits } from '../../src/cli/logits.ts';
import { runCommand } from '../support/run-command.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { distance, every, type GoldenCase, goldenCases } from './golden-case.ts';

describe.skipIf(!hasTestdata)('chairlift logits --messages', () => {
  let folder: string;
  let golden: GoldenCase;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-messages-'));
    cpSync(testdata('vision', 'images'), join(folder, 'images'), { recursive: true });
    golden = goldenCases('gemma3').find(({ name }) => name === 'two images') as GoldenCase;
    writeFileSync(join(folder, 'messages.json'), JSON.stringify(golden.messages));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const run = (...words: readonly string[]) => {
    const messages = join(folder, 'messages.json');
    const model = testdata('vision', 'gemma3');
    return runCommand(addLogits, ['logits', '--model', model, '--messages', messages, ...words]);
  };

  it('prints ids after images were expanded, the best token at each place, and the last logits', async () => {
    const { output, error } = await run('--json', '--full');
    expect(error).toBeUndefined();
    const { ids, argmax, logits } = JSON.parse(output);
    expect(ids).toEqual(golden.inputIds);
    expect(argmax).toHaveLength(ids.length);
    const best = golden.textPositions.map((position) => argmax[position]);
    // Positions are computed in pieces, which never cut an image whose tokens see each other.
    for (const [at, position] of golden.textPositions.entries()) {
      if (!golden.closePositions.includes(position)) expect(best[at]).toBe(golden.argmaxAtTextPositions[at]);
    }
    // Keys and values of the addon are halves.
    expect(distance(every(7, logits), golden.lastLogits.every7th)).toBeLessThan(2e-2);
  });

  it('computes on the backend that is asked for', async () => {
    const { output, error } = await run('--json', '--full', '--backend', 'reference');
    expect(error).toBeUndefined();
    expect(distance(every(7, JSON.parse(output).logits), golden.lastLogits.every7th)).toBeLessThan(2e-4);
  });

  it('refuses a model without eyes, and an image that is not there', async () => {
    const blind = testdata('families', 'qwen3_5');
    expect(String((await run('--model', blind)).error)).toContain(
      'images of "qwen3_5_text" are not supported. Use a model of one of these kinds',
    );
    rmSync(join(folder, 'images'), { recursive: true });
    expect(String((await run()).error)).toMatch(/--messages: images\/.*no such file/);
  });
});
