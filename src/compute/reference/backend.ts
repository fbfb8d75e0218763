// The reference backend: plain TypeScript in float32, the oracle for tests and the fallback without a compiler. It favours
// readability over speed.

import type { ImageInput } from '../../model/vision/vision-spec.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import { type Backend, type Batch, type CreateBackend, stateSlotsOf } from '../backend.ts';
import { batchLimits, checkBatch, checkPredictBatch, rowAdapters } from '../batch.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { referenceContent } from './content.ts';
import { draftRounds } from './draft-rounds.ts';
import { forward, predict } from './forward.ts';
import { KvCache } from './kv-cache.ts';
import type { RowAdapters } from './linear.ts';
import { RecurrentStates } from './recurrent-states.ts';
import { TowerRun } from './tower/tower-run.ts';
import { loadModelWeights, type ModelWeights } from './weights.ts';

interface OpenModel {
  readonly weights: ModelWeights;
  readonly cache: KvCache;
  readonly recurrentStates: RecurrentStates;
  readonly held: HeldBlocks;
}

export const createReferenceBackend: CreateBackend = async (spec, source, options) => {
  const { blockCount } = options;
  const stateSlots = stateSlotsOf(spec, options);
  const limits = batchLimits(spec, { blockCount, stateSlots });
  const adapters: RowAdapters = { current: new Int32Array() };
  let open: OpenModel | undefined = {
    weights: loadModelWeights(spec, source, adapters, options.onProgress ?? (() => {})),
    cache: new KvCache(spec, blockCount),
    recurrentStates: new RecurrentStates(spec.recurrentStates, stateSlots ?? 0),
    held: new HeldBlocks(blockCount),
  };
  const opened = (): OpenModel => {
    if (open === undefined) throw new Error('the backend is closed');
    return open;
  };
  const predictRows = async (batch: Batch): Promise<Float32Array> => {
    await new Promise<void>((resolve) => setImmediate(resolve));
    const { weights, cache, recurrentStates, held } = opened();
    adapters.current = rowAdapters(batch);
    held.take(batch);
    return predict(spec, weights, cache, recurrentStates, batch);
  };
  return {
    name: 'reference',
    blockCount,
    stateSlots,
    async step(batch) {
      // Signals and messages must get through between steps that are awaited in a loop.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const { weights, cache, recurrentStates, held } = opened();
      checkBatch(batch, limits);
      adapters.current = rowAdapters(batch);
      held.take(batch);
      return forward(spec, weights, cache, recurrentStates, batch);
    },
    ...(spec.mtp && {
      async predict(batch: Batch) {
        checkPredictBatch(batch, limits);
        return predictRows(batch);
      },
      async draft(batch: Batch, rows: readonly (readonly SampleRow[])[], leastLogprob: number) {
        const rounds = rows.map(({ length }) => length);
        checkPredictBatch(batch, limits, undefined, rounds);
        return draftRounds(batch, { rows, leastLogprob, vocabSize: spec.vocabSize }, predictRows);
      },
    }),
    ...(spec.vision && {
      beginImage(image: ImageInput) {
        const { vision } = opened().weights;
        if (vision === undefined || spec.vision === undefined) throw new Error('the tower is not loaded');
        return new TowerRun(vision.tower, spec.vision.preprocessing, image);
      },
    }),
    sampleRows,
    content: referenceContent(spec, stateSlots ?? 0, opened),
    releaseBlocks(blocks) {
      const { cache, held } = opened();
      held.release(blocks);
      cache.release(blocks);
    },
    close() {
      open = undefined;
    },
  } satisfies Backend;
};
