// Draft tokens with a given acceptance rate, from answers that are known. The worth of speculative decoding then depends on the
// machine alone.

import type { DraftToken } from '../../engine/scheduler/draft.ts';
import type { Drafter } from '../../engine/speculation/drafter.ts';

export class KnownAnswers {
  readonly #share: number;
  readonly #answers = new Map<string, readonly number[]>();

  constructor(share: number) {
    this.#share = share;
  }

  learn(prompt: Int32Array, answer: readonly number[]): void {
    this.#answers.set(prompt.join(), answer);
  }

  drafter(prompt: Int32Array, length: number): Drafter {
    return new SimulatedDrafter(this.#answers.get(prompt.join()) ?? [], length, this.#share);
  }
}

class SimulatedDrafter implements Drafter {
  readonly #answer: readonly number[];
  readonly #share: number;
  #length: number;
  #extended = 0;
  #random = 1;

  constructor(answer: readonly number[], length: number, share: number) {
    this.#answer = answer;
    this.#length = length;
    this.#share = share;
  }

  propose(): DraftToken | undefined {
    const token = this.#answer[this.#length + this.#extended];
    if (token === undefined) return undefined;
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) | 0;
    const isRight = (this.#random >>> 8) / 2 ** 24 < this.#share;
    return { token: isRight ? token : token ^ 1, source: 'prediction', matchLength: 1 };
  }

  extend(): void {
    this.#extended += 1;
  }

  rollBack(): void {
    this.#extended = 0;
  }

  accept(): void {
    this.#length += 1;
  }
}
