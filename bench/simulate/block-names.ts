// Every block of every prompt under a small number, so that simulated caches compare numbers; the numbers' keys are the
// real ones, which routers see.

import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';

export class BlockNames {
  readonly #numbers = new Map<number, Map<number, number>>();
  readonly #keys: number[] = [];

  /** The numbers of a chain of keys. */
  numbersOf(keys: Int32Array): Int32Array {
    return Int32Array.from({ length: keys.length / KEY_LANES }, (_, i) =>
      this.#numberOf(keys[KEY_LANES * i] as number, keys[KEY_LANES * i + 1] as number),
    );
  }

  keysOf(blocks: readonly number[]): Int32Array {
    const keys = new Int32Array(KEY_LANES * blocks.length);
    blocks.forEach((block, i) => {
      keys[KEY_LANES * i] = this.#keys[KEY_LANES * block] as number;
      keys[KEY_LANES * i + 1] = this.#keys[KEY_LANES * block + 1] as number;
    });
    return keys;
  }

  #numberOf(high: number, low: number): number {
    let lows = this.#numbers.get(high);
    if (lows === undefined) {
      lows = new Map();
      this.#numbers.set(high, lows);
    }
    let number = lows.get(low);
    if (number === undefined) {
      number = this.#keys.length / KEY_LANES;
      lows.set(low, number);
      this.#keys.push(high, low);
    }
    return number;
  }
}
