// Seeded decisions. Everyone who decides takes a branch of their own, by name, so that nobody's decisions depend on
// how the others happen to be scheduled.

import { seededRandom } from '../fuzz/random.ts';

export class Chance {
  readonly #seed: number;
  readonly #random;

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = seededRandom(seed);
  }

  /** Always the same one for the same name, whatever was decided before. */
  branch(name: string): Chance {
    return new Chance(hashOf(`${this.#seed} ${name}`));
  }

  /** A whole number from 0 to `limit - 1`. */
  below(limit: number): number {
    return this.#random.below(limit);
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** True in this share of cases, 0 to 1. */
  happens(share: number): boolean {
    return this.below(2 ** 30) < share * 2 ** 30;
  }

  pick<Item>(items: readonly Item[]): Item {
    return this.#random.pick(items);
  }

  /** Each item as often as its weight says. */
  weighted<Item>(items: readonly (readonly [weight: number, item: Item])[]): Item {
    const total = items.reduce((sum, [weight]) => sum + weight, 0);
    let rest = this.below(total);
    for (const [weight, item] of items) {
      if (rest < weight) return item;
      rest -= weight;
    }
    throw new Error('nothing to pick from');
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    const order = [...items];
    for (let last = order.length - 1; last > 0; last--) {
      const other = this.below(last + 1);
      [order[last], order[other]] = [order[other] as Item, order[last] as Item];
    }
    return order;
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
