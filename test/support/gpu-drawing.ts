// Draws prepared on a GPU from any logits, without a model: what the webgpu backend does after a forward pass.

import { finishDraws, Told } from '../../src/compute/webgpu/finish-draws.ts';
import type { Gpu } from '../../src/compute/webgpu/gpu.ts';
import { HEAD_WORDS, JOBS_PER_ROW, LIST_WORDS } from '../../src/compute/webgpu/kernels/draw-layout.ts';
import { drawThreads, firstCandidatesKernel } from '../../src/compute/webgpu/kernels/first-candidates.ts';
import { GpuMemory } from '../../src/compute/webgpu/memory.ts';
import { planDraws } from '../../src/compute/webgpu/plan-draws.ts';
import { Programs } from '../../src/compute/webgpu/programs.ts';
import type { SampleResult, SampleRow } from '../../src/sampling/sample-row.ts';

const DRAW_WORDS = 1 << 18;

export interface GpuDraws {
  /** `undefined` where the processor must see the logits. */
  readonly results: readonly (SampleResult | undefined)[];
  /** What is told of a row by one of its jobs. */
  tell(row: number, job: number): Told;
  /** The logits as they lie there afterwards. */
  readonly after: Float32Array<ArrayBuffer>;
}

export async function drawOnGpu(
  { device, info }: Gpu,
  logits: Float32Array<ArrayBuffer>,
  vocabSize: number,
  rows: readonly SampleRow[],
): Promise<GpuDraws> {
  const memory = new GpuMemory(device);
  const planned = planDraws(rows, vocabSize, DRAW_WORDS);
  const foundBytes = 4 * rows.length * JOBS_PER_ROW * (HEAD_WORDS + LIST_WORDS);
  const draws = await memory.filled('draws', planned.words);
  const rowLogits = await memory.filled('logits', logits);
  const saved = await memory.storage('saved', planned.words.byteLength);
  const found = await memory.storage('found', foundBytes);
  const answer = await memory.readback('answer', foundBytes);
  const after = await memory.readback('logits after', logits.byteLength);
  const text = firstCandidatesKernel(drawThreads(info.limits.workgroupThreads));
  const programs = Programs.of(device);
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(programs.pipeline('draw', text));
  pass.setBindGroup(0, programs.bind(text, [draws, rowLogits, saved, found]));
  pass.dispatchWorkgroups(rows.length);
  pass.end();
  encoder.copyBufferToBuffer(found, 0, answer, 0, planned.byteLength);
  encoder.copyBufferToBuffer(rowLogits, 0, after, 0, logits.byteLength);
  device.queue.submit([encoder.finish()]);
  // GPUMapMode.READ
  await Promise.all([answer.mapAsync(1), after.mapAsync(1)]);
  const told = answer.getMappedRange(0, planned.byteLength).slice(0);
  const logitsAfter = new Float32Array(after.getMappedRange(0, logits.byteLength).slice(0));
  memory.release();
  return {
    results: finishDraws(told, rows, planned, vocabSize),
    tell: (row, job) => new Told(told, rows.length, row, job),
    after: logitsAfter,
  };
}
