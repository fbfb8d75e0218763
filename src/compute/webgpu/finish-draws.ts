// Draws finished from what the GPU tells of rows (see kernels/draw-layout.ts), with the sampling oracle's own
// functions; `undefined` where that does not decide a row, and the processor must see its logits.

import { type TokenLogit, weigh } from '../../sampling/candidates.ts';
import { logprobsOf } from '../../sampling/log-probabilities.ts';
import type { SampleResult, SampleRow, TokenLogprobs } from '../../sampling/sample-row.ts';
import { drawFrom, isGreedy } from '../../sampling/sampler.ts';
import { headAt, headWords, LIST_LENGTH, listAt } from './kernels/draw-layout.ts';
import type { PlannedDraws } from './plan-draws.ts';

/** Most draws end among the first few: the others are not looked at. */
const LOOKS = [16, 128, LIST_LENGTH];

export function finishDraws(
  answer: ArrayBuffer,
  rows: readonly SampleRow[],
  { isLeft }: PlannedDraws,
  vocabSize: number,
): (SampleResult | undefined)[] {
  return rows.map((row, index) => {
    const tell = (job: number) => new Told(answer, rows.length, index, job);
    return isLeft[index] === true ? undefined : finishDraw(tell, row, vocabSize);
  });
}

function finishDraw(
  tell: (job: number) => Told,
  row: SampleRow,
  vocabSize: number,
): SampleResult | undefined {
  const { parameters } = row;
  const told = tell(0);
  if (told.isOdd) return undefined;
  if (told.highest === -Infinity) return { ok: false, error: 'no-candidate' };
  const token = isGreedy(parameters) ? told.likeliest : drawListed(told, row, vocabSize);
  if (token === undefined) return undefined;
  if (parameters.logprobs === undefined) return { ok: true, token };
  const logprobs = ownLogprobs(tell(1), token, parameters.logprobs, vocabSize);
  return logprobs && { ok: true, token, logprobs };
}

function drawListed(told: Told, row: SampleRow, vocabSize: number): number | undefined {
  const { highest, total, listed } = told;
  const weighing = { highest, temperature: row.parameters.temperature, vocabSize };
  let looked = 0;
  for (const look of LOOKS) {
    if (looked >= listed) break;
    looked = look;
    const token = drawFrom({ list: weigh(told.first(look), weighing), total }, row);
    if (token !== undefined) return token;
  }
  return undefined;
}

/** A token so unlikely in itself that it is not listed was drawn only because of a bias, a penalty or a mask. */
function ownLogprobs(own: Told, token: number, count: number, vocabSize: number): TokenLogprobs | undefined {
  const chosen = own.logitOf(token);
  if (chosen === undefined) return undefined;
  const { highest, total } = own;
  return logprobsOf({ vocabSize, highest, total, chosen, top: own.first(count) });
}

/** What is told of one row by one job. */
export class Told {
  readonly #words: Uint32Array;
  readonly #floats: Float32Array;
  readonly #head: number;
  readonly #list: number;

  /** The answer of so many rows. */
  constructor(answer: ArrayBuffer, rows: number, row: number, job: number) {
    this.#words = new Uint32Array(answer);
    this.#floats = new Float32Array(answer);
    this.#head = headAt(rows, job, row);
    this.#list = listAt(rows, job, row);
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

  /** So many of them, or all. */
  first(count: number): TokenLogit[] {
    return Array.from({ length: Math.min(count, this.listed) }, (_, place) => this.#at(place));
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
