// What enters and leaves the prefix cache, by keys that other processes understand. Kept only while somebody is subscribed.

import type { PrefixNode } from './prefix-key.ts';
import { KEY_LANES, writeBlockKey, writeRootKey } from './prefix-key.ts';

/** Keys since the last report, two numbers each; or all there are. */
export type PrefixEvents =
  | { readonly kind: 'change'; readonly entered: Int32Array; readonly left: Int32Array }
  | { readonly kind: 'all'; readonly keys: Int32Array };

export class PrefixEventLog {
  /** By block. */
  readonly #keys: Int32Array;
  /** By root. */
  readonly #rootKeys: number[] = [];
  #entered: number[] = [];
  #left: number[] = [];

  constructor(blockCount: number) {
    this.#keys = new Int32Array(blockCount * KEY_LANES);
  }

  /** The key of each block is known from here on, its parent's before it. */
  entered(
    block: number,
    parent: PrefixNode,
    salt: string,
    tokens: Int32Array,
    offset: number,
    images = '',
  ): void {
    const at = block * KEY_LANES;
    if (parent >= 0) writeBlockKey(this.#keys, parent * KEY_LANES, tokens, offset, this.#keys, at, images);
    else writeBlockKey(this.#rootKey(parent, salt), 0, tokens, offset, this.#keys, at, images);
    this.#entered.push(this.#keys[at] as number, this.#keys[at + 1] as number);
  }

  left(block: number): void {
    const at = block * KEY_LANES;
    this.#left.push(this.#keys[at] as number, this.#keys[at + 1] as number);
  }

  /** What has happened since it was last asked; undefined where nothing has. What came and went again is in neither. */
  take(): Extract<PrefixEvents, { kind: 'change' }> | undefined {
    if (this.#entered.length === 0 && this.#left.length === 0) return undefined;
    const [entered, left] = settled(this.#entered, this.#left);
    this.#entered = [];
    this.#left = [];
    return { kind: 'change', entered, left };
  }

  #rootKey(root: PrefixNode, salt: string): Int32Array {
    const at = (-1 - root) * KEY_LANES;
    const key = new Int32Array(KEY_LANES);
    if (this.#rootKeys[at] === undefined) {
      // The listener knows which model it is.
      writeRootKey('', salt, key, 0);
      [this.#rootKeys[at], this.#rootKeys[at + 1]] = [key[0] as number, key[1] as number];
    }
    key[0] = this.#rootKeys[at] as number;
    key[1] = this.#rootKeys[at + 1] as number;
    return key;
  }
}

/** A key that both entered and left did so in either order, as often as it did: only the difference counts. */
export function settled(
  entered: ArrayLike<number>,
  left: ArrayLike<number>,
): [entered: Int32Array, left: Int32Array] {
  if (entered.length === 0 || left.length === 0) return [Int32Array.from(entered), Int32Array.from(left)];
  const balance = new Map<string, { readonly high: number; readonly low: number; count: number }>();
  const count = (keys: ArrayLike<number>, by: number) => {
    for (let i = 0; i < keys.length; i += KEY_LANES) {
      const [high, low] = [keys[i] as number, keys[i + 1] as number];
      const name = `${high} ${low}`;
      const one = balance.get(name) ?? { high, low, count: 0 };
      one.count += by;
      balance.set(name, one);
    }
  };
  count(entered, 1);
  count(left, -1);
  const those = (sign: number) =>
    Int32Array.from(
      [...balance.values()].filter((one) => one.count * sign > 0).flatMap(({ high, low }) => [high, low]),
    );
  return [those(1), those(-1)];
}
