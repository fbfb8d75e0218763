// The buffers that a forward pass works in, for so many rows at a time.

import type { ModelSpec } from '../../model/spec.ts';
import type { KvType } from '../backend.ts';
import { partFloats, queryLanes } from './kernels/attend.ts';
import { HEAD_WORDS, JOBS_PER_ROW, LIST_WORDS } from './kernels/draw-layout.ts';
import { type KvLayout, kvLayout } from './kernels/kv-layout.ts';
import { INPUT_ROWS, paddedValues } from './kernels/make-input.ts';
import type { GpuMemory } from './memory.ts';

/** Rows of one pass at most; a larger batch takes several passes. */
const MOST_ROWS = 512;
/** Rows of logits at most. */
const MOST_WANTED = 64;
/** Tables of a few hundred sequences of a hundred thousand tokens each. */
const STEP_BYTES = 8 << 20;
const PART_BYTES = 64 << 20;
/** What is read back begins at multiples of so many bytes. */
export const RANGE_BYTES = 8;
/** Penalties of 64 sequences of thousands of different tokens each, or as many masks. */
const DRAW_BYTES = 4 << 20;

export interface Scratch {
  readonly rows: number;
  readonly wanted: number;
  readonly parts: number;
  readonly stepWords: number;
  readonly kv: KvLayout;
  readonly step: GPUBuffer;
  readonly residual: GPUBuffer;
  readonly codes: GPUBuffer;
  readonly sides: GPUBuffer;
  readonly values: GPUBuffer;
  readonly heads: GPUBuffer;
  readonly attended: GPUBuffer;
  readonly attentionParts: GPUBuffer;
  readonly branch: GPUBuffer;
  readonly gateUp: GPUBuffer;
  readonly logits: GPUBuffer;
  /** Final states of rows, padded to pairs. */
  readonly states: GPUBuffer;
  readonly readback: GPUBuffer;
  readonly drawWords: number;
  /** How tokens are drawn, own logits of adjusted tokens at the same places, and what is told of the rows. */
  readonly draws: GPUBuffer;
  readonly saved: GPUBuffer;
  readonly found: GPUBuffer;
  /** Where a kernel binds something that it will not read. */
  readonly nothing: GPUBuffer;
}

export async function allocateScratch(
  memory: GpuMemory,
  spec: ModelSpec,
  kvType: KvType,
  bindingBytes: number,
): Promise<Scratch> {
  const { hiddenSize, headCount, kvHeadCount, headSize, ffnSize, vocabSize } = spec;
  const headValues = (headCount + 2 * kvHeadCount) * headSize;
  const widest = Math.max(hiddenSize, headCount * headSize, ffnSize);
  const room = (bytesPerRow: number, most: number) =>
    Math.max(1, Math.min(most, Math.floor(bindingBytes / bytesPerRow)));
  const rows = room(4 * Math.max(2 * ffnSize, headValues, widest), MOST_ROWS);
  const wanted = room(4 * vocabSize, MOST_WANTED);
  const kv = kvLayout(kvType, headSize, kvHeadCount);
  const partBytes = 4 * kvHeadCount * queryLanes(headCount, kvHeadCount) * partFloats(kv);
  const parts = room(partBytes, Math.max(1, Math.floor(PART_BYTES / partBytes)));
  const groups = Math.ceil(widest / 32);
  const paddedRows = INPUT_ROWS * Math.ceil(rows / INPUT_ROWS);
  const stateBytes = 4 * rows * paddedValues(hiddenSize);
  const foundBytes = 4 * wanted * JOBS_PER_ROW * (HEAD_WORDS + LIST_WORDS);
  const floats = (label: string, count: number) => memory.storage(label, 4 * count);
  return {
    rows,
    wanted,
    parts,
    stepWords: STEP_BYTES / 4,
    kv,
    step: await memory.storage('step', STEP_BYTES),
    residual: await floats('residual', rows * hiddenSize),
    codes: await floats('input codes', paddedRows * groups * 8),
    sides: await floats('input sides', paddedRows * groups * 2),
    values: await floats('input values', rows * paddedValues(widest)),
    heads: await floats('queries, keys and values', rows * headValues),
    attended: await floats('attention', rows * headCount * headSize),
    attentionParts: await memory.storage('attention parts', parts * partBytes),
    branch: await floats('branch', rows * hiddenSize),
    gateUp: await floats('gate and up', rows * 2 * ffnSize),
    logits: await floats('logits', wanted * vocabSize),
    states: await memory.storage('states', stateBytes),
    // Logits or what was drawn of them, then states.
    readback: await memory.readback(
      'results to read',
      Math.max(4 * wanted * vocabSize, foundBytes) + RANGE_BYTES + stateBytes,
    ),
    drawWords: DRAW_BYTES / 4,
    draws: await memory.storage('draws', DRAW_BYTES),
    saved: await memory.storage('saved logits', DRAW_BYTES),
    found: await memory.storage('first candidates', foundBytes),
    nothing: await memory.storage('nothing', 16),
  };
}
