// Sampling on a GPU from any logits, without a model: what the webgpu backend does after a forward pass, for benchmarks and
// tests.

import { type Found, finishSampling, readFound } from '#src/compute/device-sampling/finish-sampling.ts';
import { type PlannedSampling, planSampling } from '#src/compute/device-sampling/plan-sampling.ts';
import { HEAD_WORDS, JOBS_PER_ROW, LIST_WORDS } from '#src/compute/device-sampling/sampling-layout.ts';
import type { Gpu } from '#src/compute/webgpu/gpu.ts';
import { firstCandidatesKernel, samplingThreads } from '#src/compute/webgpu/kernels/sampling.ts';
import { GpuMemory } from '#src/compute/webgpu/memory.ts';
import { Programs } from '#src/compute/webgpu/programs.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import type { SampleResult, SampleRow } from '#src/sampling/sample-row.ts';

/** Penalties of 64 rows of 2,000 different tokens each. */
const SAMPLING_BYTES = 2 << 20;

export interface SamplingOnGpu {
  plan(rows: readonly SampleRow[]): PlannedSampling;
  prepare(times?: number): Promise<void>;
  read(planned: PlannedSampling): Promise<ArrayBuffer>;
  readLogits(): Promise<Float32Array<ArrayBuffer>>;
  /** `undefined` for rows whose whole logits are needed. */
  finish(
    answer: ArrayBuffer,
    planned: PlannedSampling,
    rows: readonly SampleRow[],
  ): (SampleResult | undefined)[];
  foundOf(answer: ArrayBuffer, row: number, job: number): Found;
  close(): void;
}

export async function samplingOnGpu(
  { device, info }: Gpu,
  logits: Float32Array<ArrayBuffer>,
  vocabSize: number,
): Promise<SamplingOnGpu> {
  const memory = new GpuMemory(device);
  const rowCount = logits.length / vocabSize;
  const foundBytes = 4 * rowCount * JOBS_PER_ROW * (HEAD_WORDS + LIST_WORDS);
  const samples = await memory.storage('samples', SAMPLING_BYTES);
  const source = await memory.filled('logits', logits);
  const saved = await memory.storage('saved logits', SAMPLING_BYTES);
  const found = await memory.storage('first candidates', foundBytes);
  const readback = await memory.readback('results to read', Math.max(foundBytes, logits.byteLength));
  const text = firstCandidatesKernel(samplingThreads(info.limits.workgroupThreads));
  const pipeline = Programs.of(device).pipeline('sample', text);
  const group = Programs.of(device).bind(text, [samples, source, saved, found]);

  async function read(buffer: GPUBuffer, bytes: number): Promise<ArrayBuffer> {
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, readback, 0, bytes);
    device.queue.submit([encoder.finish()]);
    // GPUMapMode.READ
    await readback.mapAsync(1, 0, bytes);
    const copy = readback.getMappedRange(0, bytes).slice(0);
    readback.unmap();
    return copy;
  }

  return {
    plan(rows) {
      const planned = planSampling(rows, vocabSize, SAMPLING_BYTES / 4);
      device.queue.writeBuffer(samples, 0, planned.words);
      return planned;
    },
    async prepare(times = 1) {
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      for (let time = 0; time < times; time++) pass.dispatchWorkgroups(rowCount);
      pass.end();
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
    },
    read: (planned) => read(found, planned.byteLength),
    readLogits: async () => new Float32Array(await read(source, logits.byteLength)),
    finish: (answer, planned, rows) => finishSampling(answer, rows, planned, vocabSize),
    foundOf: (answer, row, job) => readFound(answer, rowCount)(row, job),
    close: () => memory.release(),
  };
}

/**
 * Logits like a model's: the n-th likeliest token, at a random id, has a probability proportional to n ** -steepness.
 * Real models have about 1.5 to 2 where a text may continue in many ways, and more elsewhere.
 */
export function modelLogits(
  vocabSize: number,
  rowCount: number,
  steepness: number,
): Float32Array<ArrayBuffer> {
  const one = Float32Array.from({ length: vocabSize }, (_, place) => 20 - steepness * Math.log(place + 1));
  for (let last = vocabSize - 1; last > 0; last--) {
    const other = Math.floor(uniformAt(seedFrom(1n), last, 0) * (last + 1));
    [one[last], one[other]] = [one[other] as number, one[last] as number];
  }
  const logits = new Float32Array(rowCount * vocabSize);
  for (let row = 0; row < rowCount; row++) {
    const turn = (row * 1999) % vocabSize;
    logits.set(one.subarray(turn), row * vocabSize);
    logits.set(one.subarray(0, turn), (row + 1) * vocabSize - turn);
  }
  return logits;
}
