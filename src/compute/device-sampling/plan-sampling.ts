// Samples of a pass as the GPU reads them (see sampling-layout.ts), and which are left to the processor.

import { needsChain, plainRow } from '../../sampling/chain.ts';
import { slopeFor, unitBitsFor } from '../../sampling/exponential.ts';
import { penaltyFactors } from '../../sampling/logit-edits.ts';
import { checkMasks, type SampleRow } from '../../sampling/sample-row.ts';
import { isGreedy } from '../../sampling/sampler.ts';
import { needsCounts } from '../../sampling/token-counts.ts';
import {
  HEAD_WORDS,
  JOB_WORDS,
  JOBS_PER_ROW,
  jobKinds,
  jobWords,
  LIST_LENGTH,
  LIST_WORDS,
} from './sampling-layout.ts';

export interface PlannedSampling {
  readonly words: Uint32Array<ArrayBuffer>;
  /** How many of a row's jobs list candidates: none, the first or both. */
  readonly lists: number;
  /** Bytes of the answer that are needed. */
  readonly byteLength: number;
  /** Which rows are left to the processor. */
  readonly isLeft: readonly boolean[];
}

export function planSampling(
  given: readonly SampleRow[],
  vocabSize: number,
  mostWords: number,
): PlannedSampling {
  checkMasks(vocabSize, given);
  const rows = given.map((row) => (needsChain(row) ? row : plainRow(row)));
  const jobs = new SamplingWriter(rows.length, vocabSize, mostWords);
  const isLeft = rows.map((row, index) => needsChain(row) || !canTell(row) || !jobs.write(row, index));
  const planned = rows.filter((_, index) => isLeft[index] === false);
  const wantsOwn = planned.some(({ parameters }) => parameters.logprobs !== undefined);
  const wantsList = planned.some(({ parameters }) => !isGreedy(parameters));
  const lists = wantsOwn ? JOBS_PER_ROW : wantsList ? 1 : 0;
  const byteLength = 4 * rows.length * (JOBS_PER_ROW * HEAD_WORDS + lists * LIST_WORDS);
  return { words: jobs.words(), lists, byteLength, isLeft };
}

/** Typical tokens are found among all, unless few are left by then; and what the GPU computes with must be plain. */
function canTell({ parameters }: SampleRow): boolean {
  const { typicalP, topK, logitBias, presencePenalty, frequencyPenalty } = parameters;
  if (typicalP < 1 && !isGreedy(parameters) && (topK === 0 || topK > LIST_LENGTH)) return false;
  return (
    isPlain(presencePenalty) && isPlain(frequencyPenalty) && logitBias.every(({ bias }) => isPlain(bias))
  );
}

/** Whether sums and products of a number stay far from overflow and underflow, where WGSL promises nothing. */
function isPlain(value: number): boolean {
  const size = Math.abs(Math.fround(value));
  return size === 0 || (size >= 2 ** -64 && size < 2 ** 100);
}

type Words = Uint32Array | Int32Array;

/** Words that a job names by where they start, and perhaps by how many tokens they are about. */
interface JobList {
  readonly word: number;
  readonly count: number;
  readonly pieces: readonly Words[];
}

class SamplingWriter {
  readonly #jobs: Uint32Array<ArrayBuffer>;
  readonly #jobFloats: Float32Array;
  readonly #vocabSize: number;
  readonly #mostWords: number;
  readonly #lists: { readonly at: number; readonly words: Words }[] = [];
  /** Rows that share a mask share its words. */
  readonly #masks = new Map<Uint32Array, number>();
  #end: number;

  constructor(rows: number, vocabSize: number, mostWords: number) {
    this.#jobs = new Uint32Array(rows * JOBS_PER_ROW * JOB_WORDS);
    this.#jobFloats = new Float32Array(this.#jobs.buffer);
    this.#end = this.#jobs.length;
    this.#vocabSize = vocabSize;
    this.#mostWords = mostWords;
  }

  /** False where there is no room. */
  write(row: SampleRow, index: number): boolean {
    const { parameters, mask } = row;
    const lists = listsOf(row);
    const newMask = mask !== undefined && !this.#masks.has(mask) ? mask : undefined;
    if (this.#end + wordCount(lists) + (newMask?.length ?? 0) > this.#mostWords) return false;
    const at = index * JOBS_PER_ROW * JOB_WORDS;
    // A token that was given needs nothing but the model's own logits.
    if (row.given !== undefined) {
      this.#writeJob(at + JOB_WORDS, jobKinds.candidates, 1);
      return true;
    }
    if (isGreedy(parameters)) this.#writeJob(at, jobKinds.likeliest, 1);
    else this.#writeJob(at, jobKinds.candidates, parameters.temperature);
    for (const { word, count, pieces } of lists) {
      this.#jobs[at + word] = this.#end;
      this.#jobs[at + word + 1] = count;
      for (const piece of pieces) this.#add(piece);
    }
    if (newMask !== undefined) this.#masks.set(newMask, this.#add(newMask));
    if (mask !== undefined) this.#jobs[at + jobWords.mask] = this.#masks.get(mask) as number;
    const { repetition, inverseRepetition, presence, frequency } = penaltyFactors(parameters);
    this.#jobFloats[at + jobWords.repetition] = repetition;
    this.#jobFloats[at + jobWords.inverseRepetition] = inverseRepetition;
    this.#jobFloats[at + jobWords.presence] = presence;
    this.#jobFloats[at + jobWords.frequency] = frequency;
    if (parameters.logprobs !== undefined) this.#writeJob(at + JOB_WORDS, jobKinds.candidates, 1);
    return true;
  }

  words(): Uint32Array<ArrayBuffer> {
    const all = new Uint32Array(this.#end);
    all.set(this.#jobs);
    for (const { at, words } of this.#lists) all.set(words, at);
    return all;
  }

  #writeJob(at: number, kind: number, temperature: number): void {
    this.#jobs[at + jobWords.kind] = kind;
    this.#jobFloats[at + jobWords.slope] = slopeFor(temperature);
    this.#jobs[at + jobWords.vocabSize] = this.#vocabSize;
    this.#jobs[at + jobWords.unitBits] = unitBitsFor(this.#vocabSize);
  }

  #add(words: Words): number {
    const at = this.#end;
    this.#lists.push({ at, words });
    this.#end += words.length;
    return at;
  }
}

function wordCount(lists: readonly JobList[]): number {
  let sum = 0;
  for (const { pieces } of lists) for (const piece of pieces) sum += piece.length;
  return sum;
}

function listsOf({ parameters, counts, forbidden }: SampleRow): readonly JobList[] {
  const lists: JobList[] = [];
  const { logitBias } = parameters;
  if (logitBias.length > 0) {
    const tokens = Uint32Array.from(logitBias, ({ token }) => token);
    const biases = new Uint32Array(Float32Array.from(logitBias, ({ bias }) => bias).buffer);
    lists.push({ word: jobWords.biased, count: tokens.length, pieces: [tokens, biases] });
  }
  if (needsCounts(parameters)) {
    if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
    const { ids, generated } = counts;
    lists.push({ word: jobWords.penalized, count: ids.length, pieces: [ids, generated] });
  }
  if (forbidden.length > 0) {
    const tokens = Uint32Array.from(new Set(forbidden));
    lists.push({ word: jobWords.forbidden, count: tokens.length, pieces: [tokens] });
  }
  return lists;
}
