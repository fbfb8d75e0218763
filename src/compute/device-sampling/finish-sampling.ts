// Finishes samples from what the GPU found of rows (see sampling-layout.ts), with the sampling oracle's own
// functions; `undefined` where that does not decide a row, and the processor must read its logits.

import { type Candidate, sumOf, type TokenLogit, weigh } from '../../sampling/candidates.ts';
import type { SampleResult, SampleRow, TokenLogprobs } from '../../sampling/sample-row.ts';
import { isGreedy, logprobsOf, sampleFrom } from '../../sampling/sampler.ts';
import type { PlannedSampling } from './plan-sampling.ts';
import { headAt, headWords, LIST_LENGTH, listAt } from './sampling-layout.ts';

/** Most samples end among the first few candidates: only where they do not, more are read, four times as many each time. */
const FIRST_READ = 8;

export function finishSampling(
  answer: ArrayBuffer,
  rows: readonly SampleRow[],
  { isLeft }: PlannedSampling,
  vocabSize: number,
): (SampleResult | undefined)[] {
  const found = readFound(answer, rows.length);
  return rows.map((row, index) =>
    isLeft[index] === true ? undefined : finishSample((job) => found(index, job), row, vocabSize),
  );
}

export function readFound(answer: ArrayBuffer, rows: number): (row: number, job: number) => Found {
  const words = new Uint32Array(answer);
  const floats = new Float32Array(answer);
  return (row, job) => new Found(words, floats, headAt(rows, job, row), listAt(rows, job, row));
}

function finishSample(
  foundBy: (job: number) => Found,
  row: SampleRow,
  vocabSize: number,
): SampleResult | undefined {
  const { parameters, given } = row;
  if (given !== undefined) return scoreGiven(foundBy(1), given, parameters.logprobs ?? 0, vocabSize);
  const found = foundBy(0);
  if (found.isOdd) return undefined;
  if (found.highest === -Infinity) return { ok: false, error: 'no-candidate' };
  const token = isGreedy(parameters) ? found.likeliest : sampleListed(found, row, vocabSize);
  if (token === undefined) return undefined;
  if (parameters.logprobs === undefined) return { ok: true, token };
  const logprobs = ownLogprobs(foundBy(1), token, parameters.logprobs, vocabSize);
  return logprobs && { ok: true, token, logprobs };
}

/** Undefined where the token is too unlikely to be listed. */
function scoreGiven(own: Found, token: number, count: number, vocabSize: number): SampleResult | undefined {
  if (own.isOdd) return undefined;
  if (own.highest === -Infinity) return { ok: false, error: 'no-candidate' };
  const place = own.between(0, own.listed).findIndex((candidate) => candidate.token === token);
  const logprobs = place === -1 ? undefined : ownLogprobs(own, token, count, vocabSize);
  return logprobs && { ok: true, token, logprobs: { ...logprobs, rank: place + 1 } };
}

function sampleListed(found: Found, row: SampleRow, vocabSize: number): number | undefined {
  const { highest, total, listed } = found;
  const { temperature, topK } = row.parameters;
  const list: Candidate[] = [];
  let seen = 0;
  for (let end = Math.max(FIRST_READ, topK); seen < listed; end *= 4) {
    list.push(...weigh(found.between(seen, end), { highest, temperature, vocabSize }));
    const token = sampleFrom({ list, total, whole: sumOf(list) === total }, row);
    if (token !== undefined) return token;
    seen = end;
  }
  return undefined;
}

/** A token so unlikely in itself that it is not listed was sampled only because of a bias, a penalty or a mask. */
function ownLogprobs(own: Found, token: number, count: number, vocabSize: number): TokenLogprobs | undefined {
  const chosen = own.logitOf(token);
  if (chosen === undefined) return undefined;
  const { highest, total } = own;
  return logprobsOf({ vocabSize, highest, total, chosen, top: own.between(0, count) });
}

/** What one job found of one row. */
export class Found {
  readonly #words: Uint32Array;
  readonly #floats: Float32Array;
  readonly #head: number;
  readonly #list: number;

  constructor(words: Uint32Array, floats: Float32Array, head: number, list: number) {
    this.#words = words;
    this.#floats = floats;
    this.#head = head;
    this.#list = list;
  }

  get isOdd(): boolean {
    return this.#word(headWords.odd) !== 0;
  }

  get likeliest(): number {
    return this.#word(headWords.token);
  }

  get highest(): number {
    return this.#floats[this.#head + headWords.logit] as number;
  }

  /** Sum of all weights. */
  get total(): number {
    return this.#word(headWords.totalHigh) * 2 ** 32 + this.#word(headWords.totalLow);
  }

  /** How many of the first candidates are known. */
  get listed(): number {
    const listed = this.#word(headWords.listed);
    return listed > LIST_LENGTH ? 0 : listed;
  }

  /** Candidates in order; fewer where no more are known. */
  between(from: number, end: number): TokenLogit[] {
    const candidates: TokenLogit[] = [];
    for (let place = from; place < Math.min(end, this.listed); place++) candidates.push(this.#at(place));
    return candidates;
  }

  logitOf(token: number): number | undefined {
    for (let place = 0; place < this.listed; place++) {
      const candidate = this.#at(place);
      if (candidate.token === token) return candidate.logit;
    }
    return undefined;
  }

  #at(place: number): TokenLogit {
    const at = this.#list + 2 * place;
    return { token: this.#words[at + 1] as number, logit: this.#floats[at] as number };
  }

  #word(place: number): number {
    return this.#words[this.#head + place] as number;
  }
}
