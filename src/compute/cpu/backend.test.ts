// The threads of the cpu backend: one pool computes and samples.

import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { randomTokens, tinyModel } from '../../../test/support/tiny-model.ts';
import { validateSampling } from '../../sampling/parameters.ts';
import { seedFrom } from '../../sampling/random.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import type { Backend } from '../backend.ts';
import { buildBatch } from '../batch.ts';
import { createCpuBackend } from './backend.ts';

const { spec, weights } = tinyModel();
const { vocabSize } = spec;
const tokens = randomTokens(90, vocabSize);

const open = (threads: number): Promise<Backend> =>
  createCpuBackend(addon(), spec, weights, { blockCount: 6, threads });

async function step(backend: Backend): Promise<Float32Array> {
  const batch = buildBatch([{ tokens, start: 0, blocks: [4, 0, 2], wantLogits: 'all' }]);
  return (await backend.step(batch)).logits.slice();
}

function rowsOf(count: number): SampleRow[] {
  const validation = validateSampling({ topP: 0.9 }, { vocabSize, freshSeed: seedFrom(1n) });
  if (!validation.ok) throw new Error(validation.problem);
  const { parameters } = validation;
  return Array.from({ length: count }, (_, position) => ({ parameters, position, choice: 0, forbidden: [] }));
}

const threadCount = () => readdirSync('/proc/self/task').length;

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it.skipIf(process.platform !== 'linux')('samples on the threads that compute', async () => {
    // Node starts threads of its own with the first work it is given.
    const first = await open(1);
    await step(first);
    const before = threadCount();
    const backend = await open(6);
    const logits = await step(backend);
    backend.sampleRows(logits, vocabSize, rowsOf(tokens.length));
    expect(threadCount() - before).toBe(5);
    for (const each of [first, backend]) each.close();
  });

  it('samples the same tokens while a step is under way, and disturbs none', async () => {
    const backend = await open(3);
    const expected = await step(backend);
    const rows = rowsOf(tokens.length);
    const sampled = sampleRows(expected, vocabSize, rows);
    for (let trial = 0; trial < 10; trial++) {
      const logits = expected.slice();
      const running = step(backend);
      for (let again = 0; again < 20; again++) {
        expect(backend.sampleRows(logits, vocabSize, rows)).toEqual(sampled);
      }
      expect(await running).toEqual(expected);
    }
    backend.close();
  });
});
