// `npm run bench -- cuda-bits SHAPE:TYPE[,…] [KERNELS] [layers] [kvType]`: whether steps on an NVIDIA GPU give the processor's logits, bit
// for bit: a prompt at once, the same in chunks, and decoding among other sequences. KERNELS is a compiled file, or - for the GPU's own.
// Ends in one JSON line.

import { readFileSync } from 'node:fs';
import { dummyModel } from '#src/bench/dummy-model.ts';
import type { Backend, KvType } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { createCudaBackend } from '#src/compute/cuda/backend.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { countFrom, dummyFrom, openAddon, print, report } from './harness.ts';

const PROMPT = 700;
const CHUNKS = [130, 3, 257, 310];
const DECODED = 3;
const OTHERS = 10;
const BLOCKS = Math.ceil((PROMPT + DECODED) / 32);

const [models = '', kernelFile = '-', layersText = '2', kvText = 'f16'] = process.argv.slice(2);
const addon = openAddon();
const given = kernelFile === '-' ? {} : { kernels: new Uint8Array(readFileSync(kernelFile)) };
const kvType: KvType = kvText === 'q8' ? 'q8' : 'f16';
const results: object[] = [];

for (const { shape, type } of models.split(',').map(dummyFrom)) {
  const files = dummyModel(shape, type, countFrom(layersText, 'layers'));
  const spec = buildSpec(files);
  const options = { blockCount: BLOCKS * (OTHERS + 2), kvType, stateSlots: OTHERS + 2 };
  const recurrent = spec.recurrentStates.length > 0;
  const sequence = (stream: number, start: number, count: number): BatchSequence => ({
    tokens: Array.from(
      { length: count },
      (_, at) => ((stream % 2) * 7919 + (start + at) * 31) % spec.vocabSize,
    ),
    start,
    blocks: Array.from({ length: Math.ceil((start + count) / 32) }, (_, block) => stream * BLOCKS + block),
    wantLogits: 'last',
    ...(recurrent
      ? { state: { from: start === 0 ? undefined : stream, kept: [{ after: count, slot: stream }] } }
      : {}),
  });

  /** All logits of sequence 0 and of its copy in chunks, one row after the other. */
  const run = async (backend: Backend): Promise<Float32Array> => {
    const rows: Float32Array[] = [];
    const step = async (sequences: readonly BatchSequence[], kept: number) => {
      const { logits } = await backend.step(buildBatch(sequences));
      rows.push(logits.slice(kept * spec.vocabSize, (kept + 1) * spec.vocabSize));
    };
    await step([sequence(0, 0, PROMPT)], 0);
    let start = 0;
    for (const count of CHUNKS) {
      await step([sequence(2, start, count)], 0);
      start += count;
    }
    for (let other = 3; other < OTHERS + 2; other++) await step([sequence(other, 0, 40 + other)], 0);
    for (let position = PROMPT; position < PROMPT + DECODED; position++) {
      const others = Array.from({ length: OTHERS - 1 }, (_, at) =>
        sequence(at + 3, 40 + at + 3 + position - PROMPT, 1),
      );
      await step([...others, sequence(0, position, 1)], others.length);
      await step([sequence(2, position, 1)], 0);
    }
    backend.close();
    return Float32Array.from(rows.flatMap((row) => [...row]));
  };

  const known = await run(await createCpuBackend(addon, spec, files.weights, options));
  const found = await run(await createCudaBackend(addon, spec, files.weights, { ...options, ...given }));
  let different = 0;
  let largest = 0;
  for (const [at, value] of known.entries()) {
    if (Object.is(value, found[at])) continue;
    different++;
    largest = Math.max(largest, Math.abs(value - (found[at] ?? Number.NaN)));
  }
  print(`${files.path}, ${kvType}: ${different} of ${known.length} logits differ, by ${largest} at most`);
  results.push({ model: files.path, kvType, logits: known.length, different });
}
report('cuda-bits', { results });
