// Tests a backend on the device it runs on, with the model it has loaded: a sequence must get the same bits alone, among
// others, and with its prompt cut into chunks. Drivers compile GPU kernels as they like; only running them shows it.

import { type Backend, BLOCK_TOKENS } from './backend.ts';
import { type BatchSequence, buildBatch } from './batch.ts';
import { ownSlot } from './batch-states.ts';

/** More than a block, so that attention crosses a boundary. */
const TOKENS = BLOCK_TOKENS + 9;
const CUT = 20;
const OTHERS = 8;
const BLOCKS_EACH = 2;
/** At most this many of the first blocks are used. */
export const TESTED_BLOCKS = BLOCKS_EACH * (OTHERS + 1);

/** The promise that is broken; undefined where none is, or where there are too few blocks for the test. */
export async function selfTest(backend: Backend, vocabSize: number): Promise<string | undefined> {
  const places = Math.min(
    OTHERS + 1,
    Math.floor(backend.blockCount / BLOCKS_EACH),
    backend.stateSlots ?? Number.POSITIVE_INFINITY,
  );
  if (places < 2) return undefined;
  const run = async (sequences: readonly TestSequence[]) => {
    const { logits } = await backend.step(buildBatch(sequences.map((each) => batchSequence(backend, each))));
    return logits.slice(0, vocabSize);
  };
  const tokens = tokensOf(1, TOKENS, vocabSize);
  const alone = await run([{ tokens, start: 0, place: 0 }]);
  const others = Array.from({ length: places - 1 }, (_, at) => ({
    tokens: tokensOf(at + 2, 1 + ((7 * at) % TOKENS), vocabSize),
    start: 0,
    place: at + 1,
  }));
  const among = await run([{ tokens, start: 0, place: 0 }, ...others]);
  await run([{ tokens: tokens.slice(0, CUT), start: 0, place: 0 }]);
  const cut = await run([{ tokens: tokens.slice(CUT), start: CUT, place: 0 }]);
  const broken = [
    ...(haveSameBits(alone, among) ? [] : ['in any batch']),
    ...(haveSameBits(alone, cut) ? [] : ['however its prompt is cut']),
  ];
  return broken.length === 0 ? undefined : `an answer is not always the same ${broken.join(' and ')}`;
}

interface TestSequence {
  readonly tokens: readonly number[];
  readonly start: number;
  readonly place: number;
}

function batchSequence({ stateSlots }: Backend, { tokens, start, place }: TestSequence): BatchSequence {
  const blocks = Array.from({ length: BLOCKS_EACH }, (_, at) => BLOCKS_EACH * place + at);
  const state = stateSlots === undefined ? {} : { state: ownSlot({ start, tokens }, place) };
  // Of the first sequence alone: it comes first.
  return { tokens, start, blocks, wantLogits: place === 0 ? 'last' : 'none', ...state };
}

/** Far apart in the vocabulary, and never the same for two seeds. */
function tokensOf(seed: number, count: number, vocabSize: number): number[] {
  return Array.from({ length: count }, (_, at) => (seed * 7919 + at * 104_729) % vocabSize);
}

function haveSameBits(a: Float32Array, b: Float32Array): boolean {
  const bits = (values: Float32Array) => new Uint32Array(values.buffer, values.byteOffset, values.length);
  const [left, right] = [bits(a), bits(b)];
  return left.length === right.length && left.every((value, at) => value === right[at]);
}
