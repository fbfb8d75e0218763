// Requests that have begun, kept in the message system so that clients can resume them at any gateway: sealed with a key that
// gateways alone have, where they have one, and in parts where they are larger than a message.

import { createHash } from 'node:crypto';
import type { Clock, RandomBytes } from '../runtime/clock.ts';
import { Seal } from '../runtime/seal.ts';
import { within } from '../runtime/timers.ts';
import type { KeptValues } from './bucket.ts';
import { fromWire, toWire } from './wire.ts';

export const KEEP_MS = 900_000;

/** What the client library calls an error of a subject that no stream takes. */
const NOBODY_TAKES_IT = 'JetStreamNotEnabled';
const HEAL_MS = 1000;
/** Before the content: how many parts follow elsewhere, and under which mark. */
const MARK_BYTES = 8;
const HEAD_BYTES = 1 + MARK_BYTES;
const MOST_PARTS = 255;

interface Surroundings {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly onProblem: (message: string) => void;
}

interface Kept {
  readonly id: string;
  readonly keyId: string;
}

export class FleetArchive<Request extends Kept> {
  readonly #bucket: Pick<KeptValues, 'values' | 'valueBytes' | 'heal'>;
  readonly #seal: Seal | undefined;
  readonly #surroundings: Surroundings;
  #reported = false;

  /** `secret`: the same at every gateway, and at no worker. */
  constructor(
    bucket: Pick<KeptValues, 'values' | 'valueBytes' | 'heal'>,
    secret: string | undefined,
    surroundings: Surroundings,
  ) {
    this.#bucket = bucket;
    this.#seal = secret === undefined ? undefined : new Seal(secret, surroundings.randomBytes);
    this.#surroundings = surroundings;
  }

  async keep(request: Request): Promise<true> {
    const name = nameOf(request.keyId, request.id);
    const plain = toWire(request);
    const content = this.#seal?.close(plain, name) ?? plain;
    try {
      await this.#put(name, content);
      return true;
    } catch (error) {
      // The bucket may be gone: then it is made anew. The client's first token waits for this, and not for long.
      const healed = this.#bucket.heal();
      if ((error as Error).name !== NOBODY_TAKES_IT) throw error;
      await within(healed, HEAL_MS, this.#surroundings.clock);
      await this.#put(name, content);
      return true;
    }
  }

  async find(keyId: string, id: string): Promise<Request | undefined> {
    const name = nameOf(keyId, id);
    const content = await this.#get(name);
    if (content === undefined) return undefined;
    const plain = this.#seal === undefined ? content : this.#seal.open(content, name);
    const kept = plain && readRequest<Request>(plain);
    if (kept === undefined) this.#reportUnreadable();
    return kept?.keyId === keyId && kept.id === id ? kept : undefined;
  }

  /** The head is written last: whoever finds it finds every part. */
  async #put(name: string, content: Uint8Array): Promise<void> {
    const { values, valueBytes } = this.#bucket;
    const room = valueBytes - HEAD_BYTES;
    const count = Math.ceil(Math.max(0, content.length - room) / valueBytes);
    if (count > MOST_PARTS) throw new Error(`a request of ${content.length} bytes is too large to be kept`);
    const mark = this.#surroundings.randomBytes(MARK_BYTES);
    for (let part = 0; part < count; part++) {
      const start = room + part * valueBytes;
      await values.put(partOf(name, mark, part), content.subarray(start, start + valueBytes));
    }
    await values.put(name, Buffer.concat([Uint8Array.of(count), mark, content.subarray(0, room)]));
  }

  async #get(name: string): Promise<Uint8Array | undefined> {
    const head = await this.#value(name);
    if (head === undefined) return undefined;
    const count = head[0] ?? 0;
    const mark = head.subarray(1, HEAD_BYTES);
    const parts = await Promise.all(
      Array.from({ length: count }, (_, part) => this.#value(partOf(name, mark, part))),
    );
    const all = [head.subarray(HEAD_BYTES), ...parts];
    return all.every((part) => part !== undefined) ? Buffer.concat(all) : undefined;
  }

  async #value(name: string): Promise<Uint8Array | undefined> {
    const entry = await this.#bucket.values.get(name);
    return entry === null || entry.operation !== 'PUT' ? undefined : entry.value;
  }

  #reportUnreadable(): void {
    if (this.#reported) return;
    this.#reported = true;
    this.#surroundings.onProblem('a kept request cannot be read: gateways need the same --archive-key');
  }
}

function readRequest<Request extends Kept>(plain: Uint8Array): Request | undefined {
  try {
    const value = fromWire(plain);
    return typeof value === 'object' && value !== null ? (value as Request) : undefined;
  } catch {
    return undefined;
  }
}

/** A hash, since ids come from clients and may have characters that subjects may not. */
function nameOf(keyId: string, id: string): string {
  return createHash('sha256').update(`${keyId}\n${id}`).digest('hex');
}

function partOf(name: string, mark: Uint8Array, part: number): string {
  return `${name}.${Buffer.from(mark).toString('hex')}.${part}`;
}
