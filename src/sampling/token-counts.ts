// The tokens a sequence has seen and how often it generated each, for penalties. Kept in flat arrays, which are cheap
// to update and to copy to native code.

import type { SamplingParameters } from './parameters.ts';

const FIRST_CAPACITY = 64;

export type SeenTokens = Pick<TokenCounts, 'ids' | 'generated'>;

export class TokenCounts {
  readonly #slots = new Map<number, number>();
  #ids = new Int32Array(FIRST_CAPACITY);
  #generated = new Int32Array(FIRST_CAPACITY);

  /** A resumed answer passed at once gives the same counts as its tokens added one by one. */
  constructor(prompt: Iterable<number>, answer: Iterable<number> = []) {
    for (const token of prompt) this.#slotOf(token);
    for (const token of answer) this.addGenerated(token);
  }

  addGenerated(token: number): void {
    const slot = this.#slotOf(token);
    this.#generated[slot] = (this.#generated[slot] as number) + 1;
  }

  /** Each token of prompt and answer once. Valid until the next token is added. */
  get ids(): Int32Array {
    return this.#ids.subarray(0, this.#slots.size);
  }

  /** How often the token at the same index of `ids` was generated; 0 where only the prompt has it. */
  get generated(): Int32Array {
    return this.#generated.subarray(0, this.#slots.size);
  }

  after(tokens: readonly number[]): SeenTokens {
    const added = new Map<number, number>();
    for (const token of tokens) added.set(token, (added.get(token) ?? 0) + 1);
    const fresh = [...added.keys()].filter((token) => !this.#slots.has(token));
    const ids = Int32Array.from([...this.ids, ...fresh]);
    const generated = new Int32Array(ids.length);
    generated.set(this.generated);
    for (const [token, count] of added) {
      const slot = this.#slots.get(token) ?? this.#slots.size + fresh.indexOf(token);
      generated[slot] = (generated[slot] as number) + count;
    }
    return { ids, generated };
  }

  #slotOf(token: number): number {
    const known = this.#slots.get(token);
    if (known !== undefined) return known;
    const slot = this.#slots.size;
    if (slot === this.#ids.length) {
      this.#ids = grown(this.#ids);
      this.#generated = grown(this.#generated);
    }
    this.#ids[slot] = token;
    this.#slots.set(token, slot);
    return slot;
  }
}

export function needsCounts(parameters: SamplingParameters): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = parameters;
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
}

function grown(values: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(values.length * 2);
  larger.set(values);
  return larger;
}
