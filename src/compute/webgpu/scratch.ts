// The buffers that a forward pass works in. Layers request them by name and width while the pass is described; requests of
// one name share a buffer, as large as the largest of them. Sizes are known once all requests are.

import type { ModelSpec } from '../../model/spec.ts';
import { isEncoder } from '../../model/spec-walk.ts';
import { HEAD_WORDS, JOBS_PER_ROW, LIST_WORDS } from '../device-sampling/sampling-layout.ts';
import { Declared } from './declared.ts';
import { paddedValues } from './kernels/linear-input.ts';
import { type GpuMemory, GpuMemoryError } from './memory.ts';

/** Rows of one pass at most; a larger batch takes several passes. */
const MOST_ROWS = 512;
/** Workgroups of a kernel along one side, of which each copy of a row may take one. */
const MOST_WORKGROUPS = 65_535;
const MOST_WANTED = 64;
/** Tables of a few hundred sequences of a hundred thousand tokens each. */
const STEP_BYTES = 8 << 20;
/** What is read back begins at multiples of this many bytes. */
export const RANGE_BYTES = 8;
/** Penalties of 64 sequences of thousands of different tokens each, or as many masks. */
const SAMPLING_BYTES = 4 << 20;

interface ScratchRequest {
  /** Floats of a row that are bound at once. */
  readonly width: number;
  /** Rows that each row of a step becomes: 1 where absent. */
  readonly copies?: number;
  /** Words of the whole buffer, where they are not `rows * width`. */
  readonly words?: (rows: number) => number;
}

interface ScratchBuffer {
  readonly declared: Declared<GPUBuffer>;
  readonly requests: ScratchRequest[];
}

/** What steps are written to and read from, and for how many rows there is room. */
export interface Scratch {
  readonly rows: number;
  readonly wanted: number;
  readonly stepWords: number;
  readonly samplingWords: number;
  readonly step: GPUBuffer;
  readonly logits: GPUBuffer;
  /** Final states of rows, padded to pairs. */
  readonly states: GPUBuffer;
  readonly readback: GPUBuffer;
  /** How tokens are sampled, the logits of adjusted tokens as they were, and the candidates found. */
  readonly samples: GPUBuffer;
  readonly saved: GPUBuffer;
  readonly found: GPUBuffer;
}

export class ScratchPlan {
  readonly #spec: ModelSpec;
  readonly #bindingBytes: number;
  readonly #wanted: number;
  readonly #buffers = new Map<string, ScratchBuffer>();
  readonly step: Declared<GPUBuffer>;
  readonly logits: Declared<GPUBuffer>;
  readonly states: Declared<GPUBuffer>;
  /** Bound where a kernel declares a buffer that it will not read. */
  readonly nothing: Declared<GPUBuffer>;

  constructor(spec: ModelSpec, bindingBytes: number) {
    this.#spec = spec;
    this.#bindingBytes = bindingBytes;
    this.#wanted = roomFor(4 * spec.vocabSize, MOST_WANTED, bindingBytes);
    this.step = this.fixed('step', STEP_BYTES);
    this.logits = this.fixed('logits', 4 * this.#wanted * spec.vocabSize);
    this.states = this.request('states', { width: paddedValues(spec.hiddenSize) });
    this.nothing = this.fixed('nothing', 16);
  }

  request(name: string, request: ScratchRequest): Declared<GPUBuffer> {
    const buffer = this.#buffers.get(name) ?? { declared: new Declared<GPUBuffer>(name), requests: [] };
    this.#buffers.set(name, buffer);
    buffer.requests.push(request);
    return buffer.declared;
  }

  /** A buffer whose size does not depend on a step's rows. */
  fixed(name: string, bytes: number): Declared<GPUBuffer> {
    return this.request(name, { width: 0, words: () => bytes / 4 });
  }

  get bytes(): number {
    const rows = this.#rows();
    const own = [...this.#buffers.values()].reduce((sum, { requests }) => sum + bytesOf(requests, rows), 0);
    return own + 2 * SAMPLING_BYTES + this.#foundBytes + this.#readbackBytes(rows);
  }

  async allocate(memory: GpuMemory): Promise<Scratch> {
    const rows = this.#rows();
    const { contextLength } = this.#spec;
    if (rows < contextLength && isWhole(this.#spec)) {
      throw new GpuMemoryError(
        `texts of ${contextLength} tokens at once are more than this GPU can bind; choose a context of at most ${rows}`,
      );
    }
    for (const [name, { declared, requests }] of this.#buffers) {
      declared.define(await memory.storage(name, bytesOf(requests, rows)));
    }
    return {
      rows,
      wanted: this.#wanted,
      stepWords: STEP_BYTES / 4,
      samplingWords: SAMPLING_BYTES / 4,
      step: this.step.value,
      logits: this.logits.value,
      states: this.states.value,
      readback: await memory.readback('results to read', this.#readbackBytes(rows)),
      samples: await memory.storage('samples', SAMPLING_BYTES),
      saved: await memory.storage('saved logits', SAMPLING_BYTES),
      found: await memory.storage('first candidates', this.#foundBytes),
    };
  }

  /** Rows of a pass: as many as every buffer can be bound with. */
  #rows(): number {
    const requests = [...this.#buffers.values()].flatMap((buffer) => buffer.requests);
    const widest = Math.max(...requests.map(({ width }) => width));
    const copies = Math.max(...requests.map((request) => request.copies ?? 1));
    const mostRows = isWhole(this.#spec) ? Math.max(MOST_ROWS, this.#spec.contextLength) : MOST_ROWS;
    const most = Math.min(mostRows, Math.floor(MOST_WORKGROUPS / copies));
    return roomFor(4 * widest, most, this.#bindingBytes);
  }

  get #foundBytes(): number {
    return 4 * this.#wanted * JOBS_PER_ROW * (HEAD_WORDS + LIST_WORDS);
  }

  /** Logits or what was sampled of them, then states. */
  #readbackBytes(rows: number): number {
    const { vocabSize, hiddenSize } = this.#spec;
    const logitBytes = 4 * this.#wanted * vocabSize;
    return Math.max(logitBytes, this.#foundBytes) + RANGE_BYTES + 4 * rows * paddedValues(hiddenSize);
  }
}

/** A text whose tokens see those after them is never cut. */
const isWhole = (spec: ModelSpec): boolean =>
  isEncoder(spec) || (spec.prefixLm === true && spec.vision !== undefined);

const bytesOf = (requests: readonly ScratchRequest[], rows: number): number =>
  4 * Math.max(...requests.map(({ width, words }) => words?.(rows) ?? rows * width));

/** How many of something can be bound at once, one at least. */
const roomFor = (bytesEach: number, most: number, bindingBytes: number): number =>
  Math.max(1, Math.min(most, Math.floor(bindingBytes / bytesEach)));
