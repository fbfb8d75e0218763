// Requests that have begun, kept in the message system for as long as their clients may come back: by any gateway of the fleet.

import { createHash } from 'node:crypto';
import type { KV } from '@nats-io/kv';
import { fromWire, toWire } from '../wire.ts';

/** How long, and how much of it. */
export const ARCHIVE = { ttl: 900_000, max_bytes: 512 * 2 ** 20 } as const;

interface Kept {
  readonly id: string;
  readonly keyId: string;
}

export class FleetArchive<Request extends Kept> {
  readonly #values: KV;

  constructor(values: KV) {
    this.#values = values;
  }

  async keep(request: Request): Promise<void> {
    await this.#values.put(keyOf(request.keyId, request.id), toWire(request));
  }

  async find(keyId: string, id: string): Promise<Request | undefined> {
    const entry = await this.#values.get(keyOf(keyId, id));
    if (entry === null || entry.operation !== 'PUT') return undefined;
    const kept = fromWire(entry.value) as Request;
    return kept.keyId === keyId && kept.id === id ? kept : undefined;
  }
}

/** Ids are the clients': not every letter may be part of a subject. */
function keyOf(keyId: string, id: string): string {
  return createHash('sha256').update(`${keyId}\n${id}`).digest('hex');
}
