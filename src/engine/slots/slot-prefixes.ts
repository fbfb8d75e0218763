// Which prefix each slot stands for, and which slot each running sequence has. A sequence that names none gets the lowest number that
// no running one has.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { imagesAt } from '../cache/block-images.ts';
import { fullBlocks } from '../cache/block-tables.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import { tenantOf } from '../tiers/block-keys.ts';
import type { SlotPrefix } from './prefix-holder.ts';

/** Of all tenants together; those that were used longest ago are forgotten. */
const MOST_PREFIXES = 4096;

export class SlotPrefixes {
  /** By tenant and slot, the least recently used first. */
  readonly #prefixes = new Map<string, SlotPrefix>();
  readonly #running = new Map<Sequence, number>();

  numberOf(sequence: Sequence): number | undefined {
    return this.#running.get(sequence);
  }

  /** `asked`: the slot that its request names. One that was preempted keeps its own. */
  started(sequence: Sequence, asked: number | undefined): void {
    if (this.#running.has(sequence)) return;
    this.#running.set(sequence, asked ?? this.#lowestFree());
  }

  /** Its tokens are still in its blocks. One that waits has none, and leaves the slot as it was. */
  ended(sequence: Sequence): number | undefined {
    const slot = this.#running.get(sequence);
    this.#running.delete(sequence);
    const blocks = fullBlocks(sequence);
    if (slot === undefined || blocks === 0 || !sequence.continues) return slot;
    const { images } = sequence;
    this.set(tenantOf(sequence.salt), slot, {
      salt: sequence.salt,
      tokens: sequence.storage.slice(0, blocks * BLOCK_TOKENS),
      // The sequence itself is not kept for them.
      imagesAt: images === undefined ? () => '' : (offset) => imagesAt({ images }, offset),
    });
    return slot;
  }

  get(tenant: string, slot: number): SlotPrefix | undefined {
    return this.#prefixes.get(nameOf(tenant, slot));
  }

  set(tenant: string, slot: number, prefix: SlotPrefix): void {
    const name = nameOf(tenant, slot);
    this.#prefixes.delete(name);
    this.#prefixes.set(name, prefix);
    for (const oldest of this.#prefixes.keys()) {
      if (this.#prefixes.size <= MOST_PREFIXES) return;
      this.#prefixes.delete(oldest);
    }
  }

  delete(tenant: string, slot: number): void {
    this.#prefixes.delete(nameOf(tenant, slot));
  }

  removeTenant(tenant: string): void {
    for (const [name, { salt }] of this.#prefixes) {
      if (tenantOf(salt) === tenant) this.#prefixes.delete(name);
    }
  }

  #lowestFree(): number {
    const taken = new Set(this.#running.values());
    let number = 0;
    while (taken.has(number)) number++;
    return number;
  }
}

function nameOf(tenant: string, slot: number): string {
  return `${slot}:${tenant}`;
}
