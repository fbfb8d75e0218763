// What a fleet stores in the message system: buckets of values in as many copies as it can, one of them for requests that have
// begun, so that clients can resume at any gateway.

import { createHash } from 'node:crypto';
import { jetstream } from '@nats-io/jetstream';
import { type KV, Kvm, type KvOptions } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { messageOf } from '../runtime/error-message.ts';
import { fromWire, toWire } from './wire.ts';

/** A cluster keeps three copies, a single server one. */
const COPIES = [3, 1] as const;

/** Creates it where it is missing; undefined, with the problem reported, where nothing can be stored. */
export async function openBucket(
  connection: NatsConnection,
  name: string,
  options: Partial<KvOptions>,
  onProblem: (message: string) => void,
): Promise<KV | undefined> {
  let reason = '';
  for (const replicas of COPIES) {
    try {
      return await new Kvm(jetstream(connection)).create(name, { ...options, history: 1, replicas });
    } catch (error) {
      reason = messageOf(error);
    }
  }
  onProblem(`the message system keeps no ${name}: ${reason}`);
  return undefined;
}

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

/** A hash, since ids come from clients and may have characters that subjects may not. */
function keyOf(keyId: string, id: string): string {
  return createHash('sha256').update(`${keyId}\n${id}`).digest('hex');
}
