// The buffers that a forward pass works in, for so many rows at a time.

import type { ModelSpec } from '../../model/spec.ts';
import { isEncoder } from '../../model/spec-walk.ts';
import type { KvType } from '../backend.ts';
import { attentionShapes, type PlannedShape } from './attention-shapes.ts';
import { tableWords } from './kernels/group-choices.ts';
import { INPUT_ROWS, paddedValues } from './kernels/make-input.ts';
import { HEAD_WORDS, JOBS_PER_ROW, LIST_WORDS } from './kernels/sampling-layout.ts';
import { type GpuMemory, GpuMemoryError } from './memory.ts';
import { type InputWidth, widthsOf } from './widths.ts';

/** Rows of one pass at most; a larger batch takes several passes. */
const MOST_ROWS = 512;
/** Workgroups of a kernel along one side, of which each choice of a row may take one. */
const MOST_WORKGROUPS = 65_535;
/** Rows of logits at most. */
const MOST_WANTED = 64;
/** Tables of a few hundred sequences of a hundred thousand tokens each. */
const STEP_BYTES = 8 << 20;
/** What is read back begins at multiples of so many bytes. */
export const RANGE_BYTES = 8;
/** Penalties of 64 sequences of thousands of different tokens each, or as many masks. */
const SAMPLING_BYTES = 4 << 20;

export interface Scratch extends ScratchBuffers {
  readonly rows: number;
  readonly wanted: number;
  readonly stepWords: number;
  readonly samplingWords: number;
  /** What the step's plans are made for. */
  readonly shapes: readonly PlannedShape[];
}

interface ScratchBuffers {
  readonly step: GPUBuffer;
  readonly residual: GPUBuffer;
  readonly codes: GPUBuffer;
  readonly sides: GPUBuffer;
  readonly values: GPUBuffer;
  /** What an attention makes of its input: queries, keys, values and gates; or a body with a memory. */
  readonly heads: GPUBuffer;
  readonly queries: GPUBuffer;
  readonly attended: GPUBuffer;
  /** Channels behind a convolution; contents of queries, or values, of MLA. */
  readonly mixed: GPUBuffer;
  readonly attentionParts: GPUBuffer;
  /** Gates and factors of a feed-forward, or of the experts that each row has chosen. */
  readonly gateUp: GPUBuffer;
  /** Inputs of single layers, one after the other. */
  readonly perLayerInputs: GPUBuffer;
  /** Scores of experts, those that each row has chosen, and whose rows lie together. */
  readonly routes: GPUBuffer;
  readonly choices: GPUBuffer;
  readonly groups: GPUBuffer;
  /** What the chosen experts give. */
  readonly opinions: GPUBuffer;
  /** What a feed-forward gives before each row takes its share, what a part gives before its norm, what a branch does. */
  readonly unshared: GPUBuffer;
  readonly part: GPUBuffer;
  /** What goes on beside a low-rank map. */
  readonly unmapped: GPUBuffer;
  /** Streams beside the first, side by side; what is predicted of the first; what coefficients are made of, and they. */
  readonly streams: GPUBuffer;
  readonly predicted: GPUBuffer;
  readonly features: GPUBuffer;
  readonly coefficients: GPUBuffer;
  readonly branch: GPUBuffer;
  readonly logits: GPUBuffer;
  /** Final states of rows, padded to pairs. */
  readonly states: GPUBuffer;
  readonly readback: GPUBuffer;
  /** How tokens are sampled, own logits of adjusted tokens at the same places, and what is told of the rows. */
  readonly samples: GPUBuffer;
  readonly saved: GPUBuffer;
  readonly found: GPUBuffer;
  /** What adapters bring rows to. */
  readonly brought: GPUBuffer;
  /** A product that adapters scale before it is added to others. */
  readonly product: GPUBuffer;
  /** Where a kernel binds something that it will not read. */
  readonly nothing: GPUBuffer;
}

/** How large the buffers are, and for how many rows. */
interface ScratchPlan {
  readonly rows: number;
  readonly mostRows: number;
  readonly wanted: number;
  readonly buffers: Readonly<
    Record<keyof ScratchBuffers, { readonly label: string; readonly bytes: number }>
  >;
}

export async function allocateScratch(
  memory: GpuMemory,
  spec: ModelSpec,
  shapes: readonly PlannedShape[],
  bindingBytes: number,
): Promise<Scratch> {
  const { rows, mostRows, wanted, buffers } = planScratch(spec, shapes, bindingBytes);
  if (rows < mostRows && isEncoder(spec)) {
    throw new GpuMemoryError(
      `texts of ${spec.contextLength} tokens at once are more than this GPU can bind; choose a context of at most ${rows}`,
    );
  }
  const made: Partial<Record<keyof ScratchBuffers, GPUBuffer>> = {};
  for (const [name, { label, bytes }] of Object.entries(buffers)) {
    const isReadback = name === 'readback';
    made[name as keyof ScratchBuffers] = isReadback
      ? await memory.readback(label, bytes)
      : await memory.storage(label, bytes);
  }
  const words = { stepWords: STEP_BYTES / 4, samplingWords: SAMPLING_BYTES / 4 };
  return { rows, wanted, ...words, shapes, ...(made as ScratchBuffers) };
}

/** What a model's steps work in takes on a GPU that binds so much at once. */
export function scratchBytes(spec: ModelSpec, kvType: KvType, bindingBytes: number): number {
  const limits = { bindingBytes, workgroupBytes: Number.POSITIVE_INFINITY };
  const { buffers } = planScratch(spec, attentionShapes(spec, kvType, limits), bindingBytes);
  return Object.values(buffers).reduce((sum, { bytes }) => sum + bytes, 0);
}

function planScratch(spec: ModelSpec, shapes: readonly PlannedShape[], bindingBytes: number): ScratchPlan {
  const { hiddenSize, vocabSize } = spec;
  const widths = widthsOf(spec);
  const room = (bytesPerRow: number, most: number) =>
    Math.max(1, Math.min(most, Math.floor(bindingBytes / bytesPerRow)));
  const mostChosen = Math.floor(MOST_WORKGROUPS / Math.max(1, widths.grouped));
  // A text whose tokens see those behind them is never cut.
  const mostRows = isEncoder(spec) ? Math.max(MOST_ROWS, spec.contextLength) : MOST_ROWS;
  const rows = room(4 * widths.widest, Math.min(mostRows, mostChosen));
  const wanted = room(4 * vocabSize, MOST_WANTED);
  const most = (floats: (input: InputWidth) => number) => Math.max(...widths.inputs.map(floats));
  const groups = most(
    ({ copies, size }) => INPUT_ROWS * Math.ceil((rows * copies) / INPUT_ROWS) * Math.ceil(size / 32),
  );
  const stateBytes = 4 * rows * paddedValues(hiddenSize);
  const foundBytes = 4 * wanted * JOBS_PER_ROW * (HEAD_WORDS + LIST_WORDS);
  const buffer = (label: string, bytes: number) => ({ label, bytes });
  const floats = (label: string, count: number) => buffer(label, 4 * count);
  const buffers: ScratchPlan['buffers'] = {
    step: buffer('step', STEP_BYTES),
    residual: floats('residual', rows * hiddenSize),
    codes: floats('input codes', groups * 8),
    sides: floats('input sides', groups * 2),
    values: floats(
      'input values',
      most(({ copies, size }) => rows * copies * paddedValues(size)),
    ),
    heads: floats('queries, keys and values', rows * widths.heads),
    queries: floats('queries', rows * widths.queries),
    attended: floats('attention', rows * widths.queries),
    mixed: floats('convolved channels', rows * widths.channels),
    attentionParts: buffer('attention parts', Math.max(0, ...shapes.map(({ partBytes }) => partBytes))),
    gateUp: floats('gate and up', rows * widths.gateUp),
    perLayerInputs: floats('inputs of layers', rows * widths.perLayerInputs),
    routes: floats('scores of experts', rows * widths.experts),
    choices: floats('chosen experts', 2 * rows * widths.choices),
    groups: floats('rows of experts', tableWords(rows * widths.grouped)),
    opinions: floats('what experts give', rows * widths.choices * hiddenSize),
    unshared: floats('shared feed-forward', widths.gated || widths.hasLowRank ? rows * hiddenSize : 0),
    unmapped: floats('beside a low rank', widths.hasLowRank ? rows * hiddenSize : 0),
    streams: floats('streams', rows * widths.streams * hiddenSize),
    predicted: floats('predicted stream', widths.streams > 0 ? rows * hiddenSize : 0),
    features: floats('features of streams', rows * (widths.streams + 1)),
    coefficients: floats('coefficients of streams', rows * (widths.streams + 1) ** 2),
    part: floats('part', widths.hasPartNorm ? rows * hiddenSize : 0),
    branch: floats('branch', rows * hiddenSize),
    logits: floats('logits', wanted * vocabSize),
    states: buffer('states', stateBytes),
    // Logits or what was sampled of them, then states.
    readback: buffer(
      'results to read',
      Math.max(4 * wanted * vocabSize, foundBytes) + RANGE_BYTES + stateBytes,
    ),
    samples: buffer('samples', SAMPLING_BYTES),
    saved: buffer('saved logits', SAMPLING_BYTES),
    found: buffer('first candidates', foundBytes),
    brought: floats('what adapters bring rows to', rows * widths.brought),
    product: floats('a product that adapters scale', widths.hasFactors ? rows * hiddenSize : 0),
    nothing: buffer('nothing', 16),
  };
  return { rows, mostRows, wanted, buffers };
}
