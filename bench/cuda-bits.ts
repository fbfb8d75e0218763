// `npm run bench -- cuda-bits SHAPE:TYPE[,…] [KERNELS] [layers] [kvType] [seeds]`: whether steps on an NVIDIA GPU give the processor's
// logits, bit for bit: a prompt at once, the same in chunks, and decoding among other sequences; and whether an engine gives its
// answers to seeded requests, alone, among 63 others, in chunks, after prefix hits and after preemption. KERNELS is a compiled file,
// or - for the GPU's own. Ends in one JSON line, and with 1 where anything differs.

import { readFileSync } from 'node:fs';
import { dummyModel } from '#src/bench/dummy-model.ts';
import type { Backend, KvType } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { createCudaBackend } from '#src/compute/cuda/backend.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { countFrom, dummyFrom, giveUp, openAddon, print, report } from './harness.ts';
import { answersTogether, SEEDED_BLOCKS, seededAnswers } from './seeded-answers.ts';

const PROMPT = 700;
const CHUNKS = [130, 3, 257, 310];
const DECODED = 3;
const OTHERS = 10;
const BLOCKS = Math.ceil((PROMPT + DECODED) / 32);
/** For 64 sequences and checkpoints of prompts that are cached. */
const STATE_SLOTS = 160;

const [models = '', kernelFile = '-', layersText = '2', kvText = 'f16', seedsText = '50'] =
  process.argv.slice(2);
const seeds = countFrom(seedsText, 'seeds');
const addon = openAddon();
const given = kernelFile === '-' ? {} : { kernels: new Uint8Array(readFileSync(kernelFile)) };
const kvType: KvType = kvText === 'q8' ? 'q8' : 'f16';
const results: object[] = [];

for (const { shape, type } of models.split(',').map(dummyFrom)) {
  const files = dummyModel(shape, type, countFrom(layersText, 'layers'));
  const spec = buildSpec(files);
  const options = {
    blockCount: Math.max(BLOCKS * (OTHERS + 2), SEEDED_BLOCKS),
    kvType,
    stateSlots: STATE_SLOTS,
  };
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
  const run = async (backend: Backend): Promise<Float32Array[]> => {
    const rows: Float32Array[] = [];
    const step = async (sequences: readonly BatchSequence[], kept: number) => {
      const { logits } = await backend.step(buildBatch(sequences));
      if (logits.some(Number.isNaN)) giveUp('logits are no numbers');
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
    backend.releaseBlocks(Int32Array.from({ length: backend.blockCount }, (_, block) => block));
    return rows;
  };

  const cpu = await createCpuBackend(addon, spec, files.weights, options);
  const cuda = await createCudaBackend(addon, spec, files.weights, { ...options, ...given });
  const [known, found] = [await run(cpu), await run(cuda)];
  let [logits, different, largest] = [0, 0, 0];
  for (const [row, values] of known.entries()) {
    logits += values.length;
    for (const [at, value] of values.entries()) {
      const other = found[row]?.[at] ?? Number.NaN;
      if (Object.is(value, other)) continue;
      different++;
      largest = Math.max(largest, Math.abs(value - other));
    }
  }
  print(`${files.path}, ${kvType}: ${different} of ${logits} logits differ, by ${largest} at most`);
  const { answers } = await answersTogether(cpu, spec, seeds);
  const ways: Record<string, number> = {};
  for (const found of await seededAnswers(cuda, spec, seeds)) {
    const others = found.answers.filter((answer, seed) => answer !== answers[seed]).length;
    ways[found.way] = others;
    print(`  ${others} of ${seeds} answers differ ${found.way} (${found.shown})`);
  }
  cpu.close();
  cuda.close();
  results.push({ model: files.path, kvType, logits, different, seeds, differentAnswers: ways });
  if (different > 0 || Object.values(ways).some((count) => count > 0)) process.exitCode = 1;
}
report('cuda-bits', { results });
