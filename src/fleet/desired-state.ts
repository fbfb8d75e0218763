// What a fleet should look like, kept in the message system: on how many workers each model is loaded.

import type { KV } from '@nats-io/kv';
import type { Placement } from './placement.ts';
import { fromWire, toWire } from './wire.ts';

const KEY = 'placements';
/** Two who change it at once take turns. */
const TRIES = 5;

export class DesiredState {
  readonly #values: KV;

  constructor(values: KV) {
    this.#values = values;
  }

  async placements(): Promise<readonly Placement[]> {
    return (await this.#read()).placements;
  }

  /** In place of what was desired of this model; none at all where it should be nowhere. */
  async place(placement: Placement): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { placements, revision } = await this.#read();
      const others = placements.filter(({ model }) => model !== placement.model);
      const wanted = placement.replicas === 0 ? others : [...others, placement];
      try {
        await this.#values.put(KEY, toWire(wanted), { previousSeq: revision });
        return;
      } catch (error) {
        if (attempt === TRIES) throw error;
      }
    }
  }

  async #read(): Promise<{ readonly placements: readonly Placement[]; readonly revision: number }> {
    const entry = await this.#values.get(KEY);
    if (entry === null || entry.operation !== 'PUT')
      return { placements: [], revision: entry?.revision ?? 0 };
    return { placements: fromWire(entry.value) as Placement[], revision: entry.revision };
  }
}
