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
/** A body of so many characters lies beside its request, which is kept again when its answer ends. */
const LARGE_BODY = 2 ** 19;
/** Values are gone after a while: a body that is older is kept again, too. */
const BODY_MS = KEEP_MS / 3;
/** Bodies that are remembered. */
const MOST_BODIES = 4096;

interface Surroundings {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly onProblem: (message: string) => void;
}

interface Kept {
  readonly id: string;
  readonly keyId: string;
  readonly body: string;
}

/** A request whose body lies elsewhere. */
type Bodiless<Request extends Kept> = Request & { readonly bodyAt?: Parts | undefined };

interface Parts {
  readonly mark: Uint8Array;
  readonly count: number;
}

interface KeptBody extends Parts {
  readonly digest: string;
  readonly atMs: number;
}

export class FleetArchive<Request extends Kept> {
  readonly #bucket: Pick<KeptValues, 'values' | 'valueBytes' | 'heal'>;
  readonly #seal: Seal | undefined;
  readonly #surroundings: Surroundings;
  /** By name of a request, the oldest first. */
  readonly #bodies = new Map<string, KeptBody>();
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
    try {
      await this.#keep(name, request);
      return true;
    } catch (error) {
      this.#bodies.delete(name);
      // The bucket may be gone: then it is made anew. The client's first token waits for this, and not for long.
      const healed = this.#bucket.heal();
      if ((error as Error).name !== NOBODY_TAKES_IT) throw error;
      await within(healed, HEAL_MS, this.#surroundings.clock);
      await this.#keep(name, request);
      return true;
    }
  }

  /** A large body, as one with images is, is written once, though what has been counted comes later. */
  async #keep(name: string, request: Request): Promise<void> {
    if (request.body.length < LARGE_BODY) return this.#put(name, this.#closed(toWire(request), name));
    const { mark, count } = await this.#bodyOf(name, request.body);
    const rest: Bodiless<Request> = { ...request, body: '', bodyAt: { mark, count } };
    await this.#put(name, this.#closed(toWire(rest), name));
  }

  async #bodyOf(name: string, body: string): Promise<Parts> {
    const bytes = Buffer.from(body);
    const digest = createHash('sha256').update(bytes).digest('hex');
    const nowMs = this.#surroundings.clock.monotonicMs();
    const known = this.#bodies.get(name);
    if (known?.digest === digest && nowMs - known.atMs < BODY_MS) return known;
    const parts = await this.#putParts(name, this.#closed(bytes, bodyName(name)));
    this.#bodies.delete(name);
    this.#bodies.set(name, { ...parts, digest, atMs: nowMs });
    const [oldest] = this.#bodies.keys();
    if (this.#bodies.size > MOST_BODIES && oldest !== undefined) this.#bodies.delete(oldest);
    return parts;
  }

  #closed(plain: Uint8Array, name: string): Uint8Array {
    return this.#seal?.close(plain, name) ?? plain;
  }

  #opened(content: Uint8Array, name: string): Uint8Array | undefined {
    return this.#seal === undefined ? content : this.#seal.open(content, name);
  }

  async find(keyId: string, id: string): Promise<Request | undefined> {
    const name = nameOf(keyId, id);
    const content = await this.#get(name);
    if (content === undefined) return undefined;
    const plain = this.#opened(content, name);
    const kept = plain && readRequest<Bodiless<Request>>(plain);
    if (kept === undefined) this.#reportUnreadable();
    if (kept?.keyId !== keyId || kept.id !== id) return undefined;
    const { bodyAt, ...request } = kept;
    if (bodyAt === undefined) return request as unknown as Request;
    const closed = await this.#parts(name, bodyAt);
    const body = closed && this.#opened(closed, bodyName(name));
    return body && ({ ...request, body: Buffer.from(body).toString() } as unknown as Request);
  }

  /** The head is written last: whoever finds it finds every part. */
  async #put(name: string, content: Uint8Array): Promise<void> {
    const { values, valueBytes } = this.#bucket;
    const room = valueBytes - HEAD_BYTES;
    const { mark, count } = await this.#putParts(name, content.subarray(room));
    await values.put(name, Buffer.concat([Uint8Array.of(count), mark, content.subarray(0, room)]));
  }

  async #putParts(name: string, content: Uint8Array): Promise<Parts> {
    const { values, valueBytes } = this.#bucket;
    const count = Math.ceil(content.length / valueBytes);
    if (count > MOST_PARTS) throw new Error(`a request of ${content.length} bytes is too large to be kept`);
    const mark = this.#surroundings.randomBytes(MARK_BYTES);
    for (let part = 0; part < count; part++) {
      const start = part * valueBytes;
      await values.put(partOf(name, mark, part), content.subarray(start, start + valueBytes));
    }
    return { mark, count };
  }

  async #get(name: string): Promise<Uint8Array | undefined> {
    const head = await this.#value(name);
    if (head === undefined) return undefined;
    const count = head[0] ?? 0;
    const rest = await this.#parts(name, { mark: head.subarray(1, HEAD_BYTES), count });
    return rest && Buffer.concat([head.subarray(HEAD_BYTES), rest]);
  }

  /** Undefined unless all of them are there. */
  async #parts(name: string, { mark, count }: Parts): Promise<Uint8Array | undefined> {
    const parts = await Promise.all(
      Array.from({ length: count }, (_, part) => this.#value(partOf(name, mark, part))),
    );
    return parts.every((part) => part !== undefined) ? Buffer.concat(parts) : undefined;
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

/** What a body is sealed for. */
function bodyName(name: string): string {
  return `${name} body`;
}

function partOf(name: string, mark: Uint8Array, part: number): string {
  return `${name}.${Buffer.from(mark).toString('hex')}.${part}`;
}
