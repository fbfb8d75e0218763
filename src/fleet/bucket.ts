// A bucket of values in the message system: created where it is missing, in as many copies as the cluster can hold. It heals
// while it is in use: one that was deleted is made anew, and one that was made in an incomplete cluster gets its copies.

import { type JetStreamManager, jetstream, type StreamInfo } from '@nats-io/jetstream';
import { type KV, type KvEntry, Kvm, type KvOptions } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { messageOf } from '../runtime/error-message.ts';

/** A cluster keeps three copies, a single server one. */
const COPIES = [3, 1] as const;
const HEAL_EVERY_MS = 30_000;
/** One that does not answer so often has lost the server with its only copy. */
const MOST_SILENCES = 3;

export interface BucketOptions {
  readonly storage: 'memory' | 'file';
  /** Values are gone after this time; without it they stay, and a bucket that does not answer is waited for. */
  readonly ttlMs?: number;
  readonly maxBytes?: number;
}

/** Undefined, with the problem reported, where nothing can be stored. */
export async function openBucket(
  connection: NatsConnection,
  name: string,
  options: BucketOptions,
  onProblem: (message: string) => void,
  healEveryMs = HEAL_EVERY_MS,
): Promise<Bucket | undefined> {
  return patiently(name, onProblem, async () => {
    const manager = await jetstream(connection).jetstreamManager();
    await resize(manager, name, options);
    const values = await create(connection, name, options);
    return new Bucket({ connection, manager, name, options, values, onProblem }, healEveryMs);
  });
}

/** For a node that may only read what others have made, or will make. */
export async function openBucketReader(
  connection: NatsConnection,
  name: string,
  onProblem: (message: string) => void,
): Promise<BucketReader | undefined> {
  return patiently(name, onProblem, async () => {
    const manager = await jetstream(connection).jetstreamManager();
    await streamIn(manager, name);
    // Without this option it would ask by a way that may read every value of the stream.
    const values = await new Kvm(jetstream(connection)).open(name, { allow_direct: true });
    return new BucketReader(manager, name, values);
  });
}

/** A cluster that has just started is silent until it has a leader. */
async function patiently<Opened>(
  name: string,
  onProblem: (message: string) => void,
  open: () => Promise<Opened>,
): Promise<Opened | undefined> {
  let reason: unknown;
  for (let attempt = 0; attempt < MOST_SILENCES; attempt++) {
    try {
      return await open();
    } catch (error) {
      reason = error;
      if (!(error instanceof Error && error.name === 'TimeoutError')) break;
    }
  }
  onProblem(`the message system keeps no ${name}: ${messageOf(reason)}`);
  return undefined;
}

/** What a node needs of it. */
export interface KeptValues extends Pick<Bucket, 'valueBytes' | 'bytes' | 'heal' | 'close'> {
  readonly values: Pick<KV, 'get' | 'put'>;
}

export class BucketReader {
  readonly #manager: JetStreamManager;
  readonly #name: string;
  readonly #values: KV;

  constructor(manager: JetStreamManager, name: string, values: KV) {
    this.#manager = manager;
    this.#name = name;
    this.#values = values;
  }

  /** Null where there is no such value, or nobody has made the bucket yet. */
  async get(key: string): Promise<KvEntry | null> {
    try {
      return await this.#values.get(key);
    } catch (error) {
      if ((await streamIn(this.#manager, this.#name)) === undefined) return null;
      throw error;
    }
  }
}

interface BucketParts {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly name: string;
  readonly options: BucketOptions;
  readonly values: KV;
  readonly onProblem: (message: string) => void;
}

export class Bucket {
  readonly values: KV;
  /** The most that one value may have. */
  readonly valueBytes: number;
  readonly #parts: BucketParts;
  readonly #timer: NodeJS.Timeout;
  #healing: Promise<void> | undefined;
  #silences = 0;
  #problem = '';

  constructor(parts: BucketParts, healEveryMs: number) {
    this.#parts = parts;
    this.values = parts.values;
    // Headers take some of the largest message.
    this.valueBytes = (parts.connection.info?.max_payload ?? 2 ** 20) - 1024;
    this.#timer = setInterval(() => void this.heal(), healEveryMs).unref();
  }

  async bytes(): Promise<number> {
    return (await this.#parts.manager.streams.info(streamOf(this.#parts.name))).state.bytes;
  }

  /** Never fails: what cannot be mended now is reported, and tried again. */
  heal(): Promise<void> {
    this.#healing ??= this.#heal()
      .then(
        () => this.#report(''),
        (error: unknown) => this.#report(`${this.#parts.name} cannot be mended: ${messageOf(error)}`),
      )
      .finally(() => {
        this.#healing = undefined;
      });
    return this.#healing;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #heal(): Promise<void> {
    const { connection, manager, name, options, onProblem } = this.#parts;
    // A lost connection says nothing about the bucket.
    if (connection.isClosed() || connection.info === undefined) return;
    try {
      const { config } = await manager.streams.info(streamOf(name));
      this.#silences = 0;
      if (config.num_replicas >= COPIES[0] || connection.info.cluster === undefined) return;
      // A cluster with too few servers refuses; it is asked again when it may have more.
      await manager.streams.update(streamOf(name), { num_replicas: COPIES[0] }).catch(() => {});
    } catch (error) {
      if (isMissing(error)) {
        await create(connection, name, options);
        return onProblem(`${name} was deleted from the message system; it is made anew, empty`);
      }
      this.#silences += 1;
      if (options.ttlMs === undefined || this.#silences < MOST_SILENCES) throw error;
      this.#silences = 0;
      await manager.streams.delete(streamOf(name)).catch(() => {});
      await create(connection, name, options);
    }
  }

  /** The same problem comes at every try: it is reported once. */
  #report(problem: string): void {
    if (problem !== '' && problem !== this.#problem) this.#parts.onProblem(problem);
    this.#problem = problem;
  }
}

/** What exists from before with another size, or on the wrong medium, is changed at the start alone: settings may differ. */
async function resize(manager: JetStreamManager, name: string, options: BucketOptions): Promise<void> {
  const stream = streamOf(name);
  const known = await streamIn(manager, name);
  if (known === undefined) return;
  if (known.config.storage !== options.storage) await manager.streams.delete(stream);
  else if (options.maxBytes !== undefined && known.config.max_bytes !== options.maxBytes)
    await manager.streams.update(stream, { max_bytes: options.maxBytes });
}

/** What exists is opened as it is. */
async function create(connection: NatsConnection, name: string, options: BucketOptions): Promise<KV> {
  const { storage, ttlMs, maxBytes } = options;
  const wanted = {
    storage,
    history: 1,
    ...(ttlMs === undefined ? {} : { ttl: ttlMs }),
    ...(maxBytes === undefined ? {} : { max_bytes: maxBytes }),
  } as Partial<KvOptions>;
  let reason: unknown;
  for (const replicas of COPIES) {
    try {
      return await new Kvm(jetstream(connection)).create(name, { ...wanted, replicas });
    } catch (error) {
      reason = error;
    }
  }
  throw reason;
}

/** Undefined where it does not exist. */
async function streamIn(manager: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  try {
    return await manager.streams.info(streamOf(name));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function streamOf(name: string): string {
  return `KV_${name}`;
}

function isMissing(error: unknown): boolean {
  return messageOf(error) === 'stream not found';
}
