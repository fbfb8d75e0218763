// Keys, values and recurrent states that were kept are found by the version of the arithmetic that computed them.

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ARITHMETIC_VERSION, type Backend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { recurrentModel } from '../contract/recurrent-contract.ts';
import { addon, hasAddon } from '../support/native.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';

const TOKENS = 32;

/** Of what one block holds of a model of each kind. */
const kinds = {
  floats: tinyModel({ layerCount: 3 }),
  'eight bits': tinyModel({ layerCount: 3, type: 'Q8_0' }),
  'four bits': tinyModel({ layerCount: 3, type: 'Q4_0' }),
  'K quants': tinyModel({
    layerCount: 3,
    type: 'Q4_K',
    hiddenSize: 256,
    ffnSize: 256,
    headCount: 4,
    headSize: 64,
  }),
  'recurrent states': recurrentModel(),
};

describe.skipIf(!hasAddon)('the arithmetic (skipped where the addon is not built)', () => {
  it('has another version where it gives other bits', async () => {
    const digests: Record<string, string> = {};
    for (const [kind, model] of Object.entries(kinds)) digests[kind] = await digestOf(model);
    // Where this fails, raise ARITHMETIC_VERSION, and take over what is computed now.
    expect({ version: ARITHMETIC_VERSION, digests }).toEqual({
      version: 1,
      digests: {
        floats: 'd54fdde089833297',
        'eight bits': '6be6f1ab4d53f963',
        'four bits': 'f029e1e4dbccc8da',
        'K quants': 'fa9e2d056a3d1d43',
        'recurrent states': '2426a7462bb5594a',
      },
    });
  });
});

async function digestOf({ spec, weights }: TinyModel): Promise<string> {
  const backend: Backend = await createCpuBackend(addon(), spec, weights, { blockCount: 1, threads: 1 });
  const { content } = backend;
  if (content === undefined) throw new Error('the backend gives no content');
  const state =
    content.stateBytes > 0 ? { state: { from: undefined, kept: [{ after: TOKENS, slot: 0 }] } } : {};
  const tokens = randomTokens(TOKENS, spec.vocabSize);
  await backend.step(buildBatch([{ tokens, start: 0, blocks: [0], wantLogits: 'none', ...state }]));
  const hash = createHash('sha256').update((await content.readBlocks(Int32Array.of(0)))[0] as Uint8Array);
  if (content.stateBytes > 0) hash.update(await content.readState(0));
  backend.close();
  return hash.digest('hex').slice(0, 16);
}
