// Content of KV blocks and of recurrent states leaves a backend as bytes and comes back, into other places and other backends, and
// nothing shows it.

import { expect, it } from 'vitest';
import type { Backend, KvContent, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { kvTypeRefusal } from '../../src/compute/kv-type.ts';
import { mlaModel } from '../support/rare-models.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';
import type { OpenBackend } from './backend-contract.ts';
import { recurrentModel } from './recurrent-contract.ts';
import { logitsOf, whole, withBackend } from './running.ts';

const BLOCKS = 16;
const TOKENS = 75;
const latent = { headCount: 2, kvLoraRank: 32, qkNopeHeadDim: 16, qkRopeHeadDim: 4, vHeadDim: 16 };

function contentOf({ content }: Backend): KvContent {
  if (content === undefined) throw new Error('the backend gives no content');
  return content;
}

export function contentContract(open: OpenBackend, kvType: KvType): void {
  const models = {
    'keys and values': tinyModel(),
    'keys and values within windows': tinyModel({ window: 40 }),
    'latent attention': mlaModel({ ...latent, seed: 1, type: 'F32' }),
  };

  const kept = Object.entries(models).filter(
    ([, { spec }]) => kvTypeRefusal(kvType, 'cpu', spec) === undefined,
  );

  it.each(kept)('of %s comes back with equal bits, elsewhere', async (_, model) => {
    const { vocabSize } = model.spec;
    const tokens = randomTokens(TOKENS, vocabSize);
    const options = { blockCount: BLOCKS, kvType };
    const rest = (blocks: readonly number[]) =>
      ({ ...whole(tokens.slice(64), blocks, 'all'), start: 64 }) as const;
    const { expected, taken } = await withBackend(open, model, options, async (backend) => {
      const content = contentOf(backend);
      await logitsOf(backend, whole(tokens.slice(0, 64), [3, 9]));
      const taken = await content.readBlocks(Int32Array.of(3, 9));
      for (const bytes of taken) expect(bytes.length).toBe(content.blockBytes);
      const expected = await logitsOf(backend, rest([3, 9, 4]));
      // Into places of other blocks, one of which has held something.
      await logitsOf(backend, whole(randomTokens(32, vocabSize, 3), [7]));
      content.writeBlock(7, taken[0] as Uint8Array);
      content.writeBlock(5, taken[1] as Uint8Array);
      expect(await logitsOf(backend, rest([7, 5, 6]))).toEqual(expected);
      expect(await content.readBlocks(Int32Array.of(5, 7))).toEqual([taken[1], taken[0]]);
      return { expected, taken };
    });
    await withBackend(open, model, options, async (backend) => {
      const content = contentOf(backend);
      content.writeBlock(0, taken[0] as Uint8Array);
      content.writeBlock(2, taken[1] as Uint8Array);
      expect(await logitsOf(backend, rest([0, 2, 1]))).toEqual(expected);
    });
  });

  it('is what was there when it was asked for, though the block is written at once afterwards', () =>
    withBackend(open, tinyModel(), { blockCount: BLOCKS, kvType }, async (backend) => {
      const content = contentOf(backend);
      await logitsOf(backend, whole(randomTokens(32, 64, 1), [2]));
      const [before] = await content.readBlocks(Int32Array.of(2));
      const reading = content.readBlocks(Int32Array.of(2));
      await Promise.all([reading, logitsOf(backend, whole(randomTokens(32, 64, 2), [2]))]);
      expect((await reading)[0]).toEqual(before);
      expect((await content.readBlocks(Int32Array.of(2)))[0]).not.toEqual(before);
    }));

  it('is refused of blocks that hold nothing, and in another size', () =>
    withBackend(open, tinyModel(), { blockCount: BLOCKS, kvType }, async (backend) => {
      const content = contentOf(backend);
      await expect(content.readBlocks(Int32Array.of(1))).rejects.toThrow('block 1 holds nothing');
      await expect(content.readBlocks(Int32Array.of(BLOCKS))).rejects.toThrow(`block ${BLOCKS}`);
      expect(() => content.writeBlock(-1, new Uint8Array(content.blockBytes))).toThrow('block -1');
      expect(() => content.writeBlock(1, new Uint8Array(content.blockBytes - 4))).toThrow('size');
    }));
}

export function stateContentContract(open: OpenBackend): void {
  const model = recurrentModel();
  const tokens = randomTokens(40, model.spec.vocabSize, 7);
  const prefix = {
    ...whole(tokens.slice(0, 32), [0]),
    state: { from: undefined, kept: [{ after: 32, slot: 3 }] },
  };
  const rest = (blocks: readonly number[], from: number) =>
    buildBatch([
      {
        ...whole(tokens.slice(32), blocks, 'all'),
        start: 32,
        state: { from, kept: [{ after: 8, slot: 6 }] },
      },
    ]);

  it('comes back with equal bits, elsewhere', async () => {
    const { expected, block, state } = await withBackend(open, model, {}, async (backend) => {
      const content = contentOf(backend);
      await logitsOf(backend, prefix);
      const [block] = await content.readBlocks(Int32Array.of(0));
      const state = await content.readState(3);
      expect(state.length).toBe(content.stateBytes);
      const expected = (await backend.step(rest([0, 1], 3))).logits.slice();
      content.writeState(9, state);
      expect((await backend.step(rest([0, 1], 9))).logits.slice()).toEqual(expected);
      return { expected, block: block as Uint8Array, state };
    });
    await withBackend(open, model, {}, async (backend) => {
      const content = contentOf(backend);
      content.writeBlock(4, block);
      content.writeState(1, state);
      expect((await backend.step(rest([4, 2], 1))).logits.slice()).toEqual(expected);
    });
  });

  it('is refused of slots that are none, and in another size', () =>
    withBackend(open, model, {}, async (backend) => {
      const content = contentOf(backend);
      await expect(content.readState(backend.stateSlots as number)).rejects.toThrow('state slot');
      expect(() => content.writeState(0, new Uint8Array(4))).toThrow('size');
    }));
}
