// A backend whose KV rows are hashes, each chained over the row before it and read through the block table. A wrong
// block, a foreign one, one overwritten or given back changes every later row; a sampled token depends on its row and
// its choice alone, so answers must equal those of a lone run.

import {
  type Backend,
  type Batch,
  BLOCK_TOKENS,
  type BlockMemory,
  type ImageRun,
  type KvContent,
  type StartStep,
  type StepResult,
} from '../../src/compute/backend.ts';
import { BlockUses, checkBatch } from '../../src/compute/batch.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import type { ImageInput } from '../../src/model/vision/vision-spec.ts';
import type { SampleResult, SampleRows } from '../../src/sampling/sample-row.ts';

export const VOCABULARY = 1 << 12;
export const END_TOKEN = 0;
/** Few tokens are ever sampled, so that answers end. */
const SAMPLED = 200;
/** One row in N has logits that are not numbers. */
const POISONED = 1999;
const NEVER_WRITTEN = -1;

/** A device that takes memory for many blocks at once and has no more than it is told to have. */
export class DeviceMemory implements BlockMemory {
  capacity: number;
  refusals = 0;
  /** Blocks that it has memory for. */
  available: number;

  constructor(available: number) {
    this.available = available;
    this.capacity = Math.min(1, available);
  }

  async fit(needed: number, most: number): Promise<number> {
    // Others may come to their turn meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.capacity > most) this.capacity = Math.max(needed, most);
    if (needed <= this.capacity) return this.capacity;
    const wanted = Math.min(most, Math.max(needed, 2 * this.capacity));
    if (needed > this.available) this.refusals++;
    this.capacity = Math.max(this.capacity, Math.min(wanted, this.available));
    return this.capacity;
  }
}

export class HashBackend implements Backend {
  readonly name = 'reference';
  readonly blockCount: number;
  readonly stateSlots: number | undefined;
  readonly blockMemory?: DeviceMemory;
  readonly content: KvContent;
  /** Called while a step computes. */
  during: (batch: Batch) => void = () => {};
  released = 0;
  /** Steps that were prepared and begun. */
  begun = 0;
  /** Where it prepares steps. */
  readonly prepareStep?: (batch: Batch) => StartStep | undefined;
  readonly #rows: Int32Array;
  readonly #uses: BlockUses;
  /** The last row that a sequence remembers. */
  readonly #recurrentStates: Int32Array;
  /** What went into each row: its token, or what it shows, and how it is rotated. */
  readonly #inputs: Int32Array;
  /** Where it runs a vision tower. */
  readonly beginImage?: (image: ImageInput) => ImageRun;
  readonly #vision: HashVision | undefined;
  #logits = new Float32Array(0);

  constructor(
    blockCount: number,
    stateSlots?: number,
    blockMemory?: DeviceMemory,
    prepares = false,
    vision?: HashVision,
  ) {
    this.#vision = vision;
    if (vision !== undefined) this.beginImage = vision.beginImage;
    this.#inputs = new Int32Array(blockCount * BLOCK_TOKENS);
    this.blockCount = blockCount;
    if (prepares) this.prepareStep = (batch) => this.#prepare(batch);
    if (blockMemory !== undefined) this.blockMemory = blockMemory;
    this.stateSlots = stateSlots;
    this.#recurrentStates = new Int32Array(stateSlots ?? 0).fill(NEVER_WRITTEN);
    this.#rows = new Int32Array(blockCount * BLOCK_TOKENS).fill(NEVER_WRITTEN);
    this.#uses = new BlockUses(blockCount);
    this.content = this.#content();
  }

  async step(batch: Batch): Promise<StepResult> {
    const { blockCount, stateSlots } = this;
    const { hiddenSize } = this.#vision ?? {};
    const limits = { blockCount, stateSlots, hiddenSize, vocabSize: VOCABULARY, contextLength: 1 << 20 };
    checkBatch(batch, limits, this.#uses);
    const last = new Int32Array(batch.tokens.length);
    const recalled = batch.recurrentStates.from.map((slot) =>
      slot < 0 ? 1 : (this.#recurrentStates[slot] as number),
    );
    const inputs = inputsOf(batch);
    for (let i = 0; i < batch.starts.length; i++) this.#store(batch, i, inputs);
    for (let i = 0; i < batch.starts.length; i++) this.#compute(batch, i, last, recalled[i]);
    for (const [k, row] of batch.recurrentStates.rows.entries()) {
      this.#recurrentStates[batch.recurrentStates.slots[k] as number] = last[row] as number;
    }
    if (this.blockMemory !== undefined && this.#written() > this.blockMemory.capacity) {
      throw new Error(
        `${this.#written()} blocks hold something, with memory for ${this.blockMemory.capacity}`,
      );
    }
    this.during(batch);
    const wanted = batch.logitRows.length * VOCABULARY;
    if (this.#logits.length < wanted) this.#logits = new Float32Array(wanted);
    // 24 bits fit a float exactly.
    for (const [i, row] of batch.logitRows.entries())
      this.#logits[i * VOCABULARY] = (last[row] as number) >>> 8;
    const states = Float32Array.from(batch.stateRows, (row) => (last[row] as number) >>> 8);
    return { logits: this.#logits, states };
  }

  #prepare(batch: Batch): StartStep | undefined {
    if (this.blockMemory !== undefined && this.#writtenAfter(batch) > this.blockMemory.capacity)
      return undefined;
    return async (tokens) => {
      this.begun++;
      // A device computes while others come to their turn.
      await new Promise((resolve) => setImmediate(resolve));
      return this.step({ ...batch, tokens });
    };
  }

  readonly sampleRows: SampleRows = (logits, vocabSize, rows) =>
    rows.map(({ choice }, i) => sample(logits[i * vocabSize] as number, choice));

  releaseBlocks(blocks: Int32Array): void {
    this.released += blocks.length;
    for (const block of blocks) {
      this.#rows.fill(NEVER_WRITTEN, block * BLOCK_TOKENS, (block + 1) * BLOCK_TOKENS);
    }
  }

  close(): void {}

  /** Of a block its rows and what went into them. */
  #content(): KvContent {
    const blockBytes = 8 * BLOCK_TOKENS;
    const parts = (block: number) =>
      [this.#rows, this.#inputs].map((all) => all.subarray(block * BLOCK_TOKENS, (block + 1) * BLOCK_TOKENS));
    return {
      format: 'hashes',
      blockBytes,
      stateBytes: this.stateSlots === undefined ? 0 : 4,
      readBlocks: (blocks) => {
        const all = Array.from(blocks, (block) => {
          const [rows, inputs] = parts(block) as [Int32Array, Int32Array];
          if (rows.includes(NEVER_WRITTEN)) throw new Error(`block ${block} is not full`);
          return new Uint8Array(Int32Array.of(...rows, ...inputs).buffer);
        });
        // A device copies at once, and gives later.
        return new Promise((resolve) => setImmediate(() => resolve(all)));
      },
      writeBlock: (block, bytes) => {
        const values = new Int32Array(bytes.slice().buffer);
        for (const [index, part] of parts(block).entries())
          part.set(values.subarray(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS));
        if (this.blockMemory !== undefined && this.#written() > this.blockMemory.capacity)
          throw new Error(`there is no room for block ${block}`);
      },
      readState: async (slot) => new Uint8Array(Int32Array.of(this.#recurrentStates[slot] as number).buffer),
      writeState: (slot, bytes) => {
        this.#recurrentStates[slot] = new Int32Array(bytes.slice().buffer)[0] as number;
      },
    };
  }

  /** The same after a batch with one token of each sequence. */
  #writtenAfter({ starts, blocks, blockStarts }: Batch): number {
    const isNew = (start: number, i: number) => {
      const block = blocks[(blockStarts[i] as number) + Math.floor(start / BLOCK_TOKENS)] as number;
      return this.#rows[block * BLOCK_TOKENS] === NEVER_WRITTEN;
    };
    return this.#written() + starts.filter(isNew).length;
  }

  /** Blocks that hold something. */
  #written(): number {
    let count = 0;
    for (let row = 0; row < this.#rows.length; row += BLOCK_TOKENS) {
      if (this.#rows[row] !== NEVER_WRITTEN) count++;
    }
    return count;
  }

  /** Rows that see what comes after them find it, as far as this step and those before have it. */
  #store({ rowStarts, starts, blocks, blockStarts }: Batch, i: number, inputs: Int32Array): void {
    const first = rowStarts[i] as number;
    for (let row = first; row < (rowStarts[i + 1] as number); row++) {
      const position = (starts[i] as number) + row - first;
      const block = blocks[(blockStarts[i] as number) + Math.floor(position / BLOCK_TOKENS)] as number;
      this.#inputs[block * BLOCK_TOKENS + (position % BLOCK_TOKENS)] = inputs[row] as number;
    }
  }

  #compute(
    { rowStarts, starts, blocks, blockStarts, imageEnds }: Batch,
    i: number,
    last: Int32Array,
    recalled: number | undefined,
  ): void {
    const [first, end, start] = [rowStarts[i] as number, rowStarts[i + 1] as number, starts[i] as number];
    const rowOf = (position: number) => {
      const block = blocks[(blockStarts[i] as number) + Math.floor(position / BLOCK_TOKENS)] as number;
      return block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
    };
    for (let row = first; row < end; row++) {
      const position = start + row - first;
      const before = position === 0 ? 1 : (this.#rows[rowOf(position - 1)] as number);
      if (before === NEVER_WRITTEN)
        throw new Error(`item ${i} reads position ${position - 1}, never written`);
      if (row === first && recalled !== undefined && recalled !== before)
        throw new Error(`item ${i} does not remember position ${position - 1}`);
      const end = this.#vision?.bothWays === true ? (imageEnds?.[row] ?? 0) : 0;
      const seen = Array.from({ length: Math.max(0, end - position - 1) }, (_, next) =>
        rowOf(position + 1 + next),
      );
      const inputs = [rowOf(position), ...seen].map((at) => this.#inputs[at] as number);
      last[row] = inputs.reduce(chain, before);
      this.#rows[rowOf(position)] = last[row] as number;
    }
  }
}

/** A tower that gives hashes, too. */
export interface HashVision {
  readonly hiddenSize: number;
  /** Rows see to the end of their image, or prompt. */
  readonly bothWays: boolean;
  readonly beginImage: (image: ImageInput) => ImageRun;
}

/** What goes into each row: all that may change it. */
function inputsOf({ tokens, images, rotaryPositions, rowStarts, starts }: Batch): Int32Array {
  const inputs = Int32Array.from(tokens);
  const { rows = [], embeddings = [], deepstack = [] } = images ?? {};
  const size = embeddings.length / Math.max(1, rows.length);
  for (const [index, row] of rows.entries()) {
    const values = [embeddings, ...deepstack].flatMap((layer) => [
      ...layer.slice(index * size, (index + 1) * size),
    ]);
    inputs[row] = values.reduce(chain, 0);
  }
  if (rotaryPositions === undefined) return inputs;
  for (let i = 0; i < starts.length; i++) {
    for (let row = rowStarts[i] as number; row < (rowStarts[i + 1] as number); row++) {
      const position = (starts[i] as number) + row - (rowStarts[i] as number);
      inputs[row] = turned(inputs[row] as number, position, rotaryPositions.subarray(3 * row, 3 * row + 3));
    }
  }
  return inputs;
}

/** The same as without rotation where all three are the position. */
export function turned(input: number, position: number, axes: ArrayLike<number>): number {
  const [time = 0, row = 0, column = 0] = Array.from(axes);
  return input ^ Math.imul(3 * time + 5 * row + 7 * column - 15 * position, 0x9e3779b1);
}

/** What an answer to the prompt must be, without any block: its tokens, and whether it ends in poisoned logits. */
export function answerAlone(
  prompt: ArrayLike<number>,
  choice: number,
  newTokens: number,
  ignoreEnd: boolean,
  /** After the prompt's rows. */
  first = Array.from(prompt).reduce(chain, 1),
  /** What goes into the row of a token of the answer. */
  inputOf: (token: number, index: number) => number = (token) => token,
): { readonly tokens: readonly number[]; readonly failed: boolean } {
  let row = first;
  const tokens: number[] = [];
  while (tokens.length < newTokens) {
    const result = sample(row >>> 8, choice);
    if (!result.ok) return { tokens, failed: true };
    tokens.push(result.token);
    if (result.token === END_TOKEN && !ignoreEnd) break;
    row = chain(row, inputOf(result.token, tokens.length - 1));
  }
  return { tokens, failed: false };
}

/** What the prompt's vector must be: states are rows like those that tokens are sampled from. */
export function vectorAlone(prompt: ArrayLike<number>, pooling: Pooling): number {
  let row = 1;
  const states = Array.from(prompt, (token) => {
    row = chain(row, token);
    return row >>> 8;
  });
  if (pooling === 'last') return states.at(-1) as number;
  const [first = 0] = states;
  return pooling === 'cls'
    ? first
    : Math.fround(states.reduce((sum, state) => sum + state, 0) / states.length);
}

function sample(logit: number, choice: number): SampleResult {
  if (logit % POISONED === 0) return { ok: false, error: 'numeric-error' };
  return { ok: true, token: (chain(logit, choice) >>> 3) % SAMPLED };
}

export function chain(row: number, token: number): number {
  const mixed = Math.imul(row ^ (token + 0x7f4a7c15), 0x2c1b3c6d);
  const next = mixed ^ (mixed >>> 13);
  return next === NEVER_WRITTEN ? 0 : next;
}
