// Requests that have begun, kept in the message system for as long as their clients may come back: by any gateway of the fleet.

import { createHash } from 'node:crypto';
import type { NatsConnection } from '@nats-io/transport-node';
import { messageOf } from '../../failure/message-of.ts';
import { fromWire, toWire } from '../wire.ts';

const KEEP_MS = 900_000;
const MOST_BYTES = 512 * 2 ** 20;
/** A cluster keeps so many copies; a single server keeps one. */
const COPIES = [3, 1] as const;

interface Kept {
  readonly id: string;
  readonly keyId: string;
}

/** What the store must do. */
export interface KeptValues {
  put(key: string, value: Uint8Array): Promise<unknown>;
  get(key: string): Promise<{ readonly value: Uint8Array; readonly operation: string } | null>;
}

export async function openKeptValues(
  connection: NatsConnection,
  fleet: string,
  onProblem: (message: string) => void,
): Promise<KeptValues | undefined> {
  const [{ Kvm }, { jetstream }] = await Promise.all([import('@nats-io/kv'), import('@nats-io/jetstream')]);
  let reason = '';
  for (const replicas of COPIES) {
    try {
      const options = { ttl: KEEP_MS, history: 1, replicas, max_bytes: MOST_BYTES };
      return await new Kvm(jetstream(connection)).create(`chairlift-${fleet}-requests`, options);
    } catch (error) {
      reason = messageOf(error);
    }
  }
  onProblem(`clients cannot come back to their answers, since the message system keeps nothing: ${reason}`);
  return undefined;
}

export class FleetArchive<Request extends Kept> {
  readonly #values: KeptValues;

  constructor(values: KeptValues) {
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
