// Backends of the embedded model for engines of tests, taken back when these close: to load weights takes longer than most of what
// is tested with them. The test files of a process share them.

import type { Backend } from '../../src/compute/backend.ts';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { embeddedModelPath } from './embedded-model.ts';

export const embeddedModel = openLocalModel(embeddedModelPath);

/** By their number of blocks. */
const unused = new Map<number, Backend[]>();

export async function lendBackend(blockCount: number): Promise<Backend> {
  const { spec, files } = embeddedModel;
  const backend =
    unused.get(blockCount)?.pop() ??
    (await chooseBackend(undefined).create(spec, files.weights, { blockCount }));
  return {
    name: backend.name,
    blockCount,
    step: (batch, rows) => backend.step(batch, rows),
    sampleRows: (logits, vocabSize, rows) => backend.sampleRows(logits, vocabSize, rows),
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    ...(backend.content && { content: backend.content }),
    close() {
      backend.releaseBlocks(Int32Array.from({ length: blockCount }, (_, block) => block));
      unused.set(blockCount, [...(unused.get(blockCount) ?? []), backend]);
    },
  };
}
