// Draws of a pass as the GPU reads them (see kernels/draw-layout.ts), and which are left to the processor.

import { penaltyFactors } from '../../sampling/adjusted-logits.ts';
import { slopeFor, unitBitsFor } from '../../sampling/exponential.ts';
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
} from './kernels/draw-layout.ts';
import { isPlain } from './kernels/plain-logits.ts';

export interface PlannedDraws {
  readonly words: Uint32Array<ArrayBuffer>;
  /** Bytes of the answer that are needed. */
  readonly byteLength: number;
  /** Which rows the GPU will tell nothing of. */
  readonly isLeft: readonly boolean[];
}

export function planDraws(rows: readonly SampleRow[], vocabSize: number, mostWords: number): PlannedDraws {
  checkMasks(vocabSize, rows);
  for (const row of rows) checkTokens(row, vocabSize);
  const jobs = new DrawWriter(rows.length, vocabSize, mostWords);
  const isLeft = rows.map((row, index) => !canTell(row) || !jobs.write(row, index));
  const told = rows.filter((_, index) => isLeft[index] === false);
  const wantsOwn = told.some(({ parameters }) => parameters.logprobs !== undefined);
  const wantsList = told.some(({ parameters }) => !isGreedy(parameters));
  const lists = wantsOwn ? JOBS_PER_ROW : wantsList ? 1 : 0;
  const byteLength = 4 * rows.length * (JOBS_PER_ROW * HEAD_WORDS + lists * LIST_WORDS);
  return { words: jobs.words(), byteLength, isLeft };
}

/** The GPU would reach into another row. */
function checkTokens({ parameters, counts, forbidden }: SampleRow, vocabSize: number): void {
  const isStranger = (token: number) => token >= vocabSize;
  const strangers = [
    parameters.logitBias.find(({ token }) => isStranger(token))?.token,
    needsCounts(parameters) ? counts?.ids.find(isStranger) : undefined,
    forbidden.find(isStranger),
  ].filter((token) => token !== undefined);
  if (strangers.length > 0) throw new Error(`sampling: there is no such token: ${strangers[0]}`);
}

/** Typical tokens are found among all, unless few are left by then; and what the GPU computes with must be plain. */
function canTell({ parameters }: SampleRow): boolean {
  const { typicalP, topK, logitBias } = parameters;
  if (typicalP < 1 && !isGreedy(parameters) && (topK === 0 || topK > LIST_LENGTH)) return false;
  return (
    logitBias.every(({ bias }) => isPlain(bias)) && Object.values(penaltyFactors(parameters)).every(isPlain)
  );
}

type Words = Uint32Array | Int32Array;

class DrawWriter {
  readonly #jobs: Uint32Array;
  readonly #vocabSize: number;
  readonly #mostWords: number;
  readonly #lists: { readonly at: number; readonly words: Words }[] = [];
  /** Rows that share a mask share its words. */
  readonly #masks = new Map<Uint32Array, number>();
  #end: number;

  constructor(rows: number, vocabSize: number, mostWords: number) {
    this.#jobs = new Uint32Array(rows * JOBS_PER_ROW * JOB_WORDS);
    this.#end = this.#jobs.length;
    this.#vocabSize = vocabSize;
    this.#mostWords = mostWords;
  }

  /** False where there is no room. */
  write(row: SampleRow, index: number): boolean {
    const { parameters, mask } = row;
    const lists = listsOf(row);
    const newMask = mask !== undefined && !this.#masks.has(mask) ? [mask] : [];
    const added = [...lists.flatMap(({ pieces }) => pieces), ...newMask];
    const length = added.reduce((sum, piece) => sum + piece.length, 0);
    if (this.#end + length > this.#mostWords) return false;
    const job = isGreedy(parameters)
      ? this.#job(index, 0, jobKinds.likeliest, 1)
      : this.#job(index, 0, jobKinds.candidates, parameters.temperature);
    for (const { word, count, pieces } of lists) {
      job.set([this.#end, count], word);
      for (const piece of pieces) this.#add(piece);
    }
    for (const words of newMask) this.#masks.set(words, this.#add(words));
    if (mask !== undefined) job[jobWords.mask] = this.#masks.get(mask) as number;
    const { repetition, inverseRepetition, presence, frequency } = penaltyFactors(parameters);
    job.set([repetition, inverseRepetition, presence, frequency].map(floatBits), jobWords.repetition);
    if (parameters.logprobs !== undefined) this.#job(index, 1, jobKinds.candidates, 1);
    return true;
  }

  words(): Uint32Array<ArrayBuffer> {
    const all = new Uint32Array(this.#end);
    all.set(this.#jobs);
    for (const { at, words } of this.#lists) all.set(words, at);
    return all;
  }

  #job(index: number, job: number, kind: number, temperature: number): Uint32Array {
    const at = (index * JOBS_PER_ROW + job) * JOB_WORDS;
    const words = this.#jobs.subarray(at, at + JOB_WORDS);
    words[jobWords.kind] = kind;
    words[jobWords.slope] = floatBits(slopeFor(temperature));
    words[jobWords.vocabSize] = this.#vocabSize;
    words[jobWords.unitBits] = unitBitsFor(this.#vocabSize);
    return words;
  }

  #add(words: Words): number {
    const at = this.#end;
    this.#lists.push({ at, words });
    this.#end += words.length;
    return at;
  }
}

interface JobList {
  readonly word: number;
  readonly count: number;
  readonly pieces: readonly Words[];
}

function listsOf({ parameters, counts, forbidden }: SampleRow): readonly JobList[] {
  const lists: JobList[] = [];
  const { logitBias } = parameters;
  if (logitBias.length > 0) {
    const tokens = Uint32Array.from(logitBias, ({ token }) => token);
    const biases = Uint32Array.from(logitBias, ({ bias }) => floatBits(bias));
    lists.push({ word: jobWords.biased, count: logitBias.length, pieces: [tokens, biases] });
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

function floatBits(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0] as number;
}
