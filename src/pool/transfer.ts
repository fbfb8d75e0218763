// One file from the hub to the disk. Bytes gather in `file.part` and are hashed as they come; the file appears
// under its name only when it is whole and its checksum right. A part that was left goes on where it ended.

import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { constants, type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fetchFromHub, type Hub, type HubFile, refusal } from './hub.ts';
import { PART } from './model-files.ts';
import { PullError } from './model-reference.ts';

interface Transfer {
  readonly hub: Hub;
  readonly repository: { readonly owner: string; readonly repo: string };
  readonly file: HubFile;
  readonly address: string;
  readonly target: string;
  readonly signal: AbortSignal;
  /**
   * How many bytes of the file are there and hashed, and how many of them just came. Goes back where the server
   * makes it start anew.
   */
  readonly onProgress: (doneBytes: number, cameBytes: number) => void;
  readonly patience: Patience;
}

export interface Patience {
  /** Attempts in a row that bring nothing. */
  readonly attempts: number;
  /** Before the second attempt; twice as long before each further one. */
  readonly firstDelayMs: number;
  /** A connection on which nothing comes for longer is dead. */
  readonly silenceMs: number;
}

export const defaultPatience: Patience = { attempts: 5, firstDelayMs: 1000, silenceMs: 60_000 };

/** Where the checksum is right already, nothing is transferred. */
export async function transferFile(transfer: Transfer): Promise<'fetched' | 'present'> {
  const { file, target } = transfer;
  if ((await sizeOf(target)) === file.sizeBytes) {
    const hash = new ContentHash(file);
    await hash.readFile(target, transfer);
    if (hash.isRight()) return 'present';
  }
  await mkdir(dirname(target), { recursive: true });
  const partPath = target + PART;
  if (((await sizeOf(partPath)) ?? 0) > file.sizeBytes) await rm(partPath);
  const hash = new ContentHash(file);
  const part = await open(partPath, constants.O_RDWR | constants.O_CREAT);
  try {
    await hash.readFile(partPath, transfer);
    await fill(part, hash, transfer);
    await part.sync();
  } finally {
    await part.close();
  }
  if (!hash.isRight()) {
    await rm(partPath);
    throw new PullError(
      `${file.path}: what came is not what the hub promised (wrong ${file.checksum?.kind} checksum); ` +
        'it was removed. Pull again; if that does not help, the source is damaged',
    );
  }
  await rename(partPath, target);
  return 'fetched';
}

/** Asks for the rest until it is there; an attempt that brought something gives new hope. */
async function fill(part: FileHandle, hash: ContentHash, transfer: Transfer): Promise<void> {
  const { file, signal, patience } = transfer;
  let { attempts, firstDelayMs: delayMs } = patience;
  while (hash.bytes < file.sizeBytes) {
    const before = hash.bytes;
    try {
      await fetchRest(part, hash, transfer);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ConnectionLost)) throw error;
      if (hash.bytes > before) ({ attempts, firstDelayMs: delayMs } = patience);
      if (--attempts <= 0) {
        throw new PullError(
          `${file.path}: the connection was lost (${error.message}) after ${hash.bytes} of ${file.sizeBytes} ` +
            'bytes; they are kept, so pull again to go on',
        );
      }
      await delay(delayMs, undefined, { signal });
      delayMs *= 2;
    }
  }
}

class ConnectionLost extends Error {}

async function fetchRest(part: FileHandle, hash: ContentHash, transfer: Transfer): Promise<void> {
  const { hub, file, address, onProgress, patience } = transfer;
  const watchdog = new Watchdog(transfer.signal, patience.silenceMs);
  try {
    // The content must come as it is, or neither its length nor its place would mean anything.
    const headers = { 'accept-encoding': 'identity', range: `bytes=${hash.bytes}-` };
    const response = await connected(fetchFromHub(hub, address, { signal: watchdog.signal, headers }));
    await acceptStart(response, part, hash, transfer);
    for await (const chunk of connectedChunks(response)) {
      watchdog.refresh();
      if (hash.bytes + chunk.length > file.sizeBytes) {
        throw new PullError(`${file.path}: more came than the ${file.sizeBytes} bytes that the hub promised`);
      }
      await writeAll(part, chunk, hash.bytes);
      hash.update(chunk);
      onProgress(hash.bytes, chunk.length);
    }
    if (hash.bytes < file.sizeBytes) throw new ConnectionLost('it ended early');
  } finally {
    watchdog.end();
  }
}

/** Finds out where the body starts: where it was asked to, or, by servers that know no ranges, at 0. */
async function acceptStart(
  response: Response,
  part: FileHandle,
  hash: ContentHash,
  transfer: Transfer,
): Promise<void> {
  const { file, hub, repository } = transfer;
  const { status } = response;
  if (status === 206) {
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
    const isRight =
      Number(range?.[1]) === hash.bytes && ['*', String(file.sizeBytes)].includes(range?.[2] ?? '');
    if (isRight) return;
    await response.body?.cancel();
    throw new PullError(`${file.path}: the server sent another part of the file than it was asked for`);
  }
  if (status === 200) {
    await startAnew(part, hash);
    return;
  }
  await response.body?.cancel();
  if (status === 416) {
    await startAnew(part, hash);
    throw new ConnectionLost('the file has changed');
  }
  if (status >= 500 || status === 408 || status === 429) throw new ConnectionLost(`status ${status}`);
  if (status === 404)
    throw new PullError(`${file.path} is no longer in ${repository.owner}/${repository.repo}`);
  throw refusal(status, hub, repository);
}

async function startAnew(part: FileHandle, hash: ContentHash): Promise<void> {
  await part.truncate(0);
  hash.reset();
}

async function connected(response: Promise<Response>): Promise<Response> {
  try {
    return await response;
  } catch (error) {
    throw new ConnectionLost(messageOf(error));
  }
}

async function* connectedChunks({ body }: Response): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw new ConnectionLost(messageOf(error));
      });
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function writeAll(part: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    const result = await part.write(chunk, written, chunk.length - written, position + written);
    written += result.bytesWritten;
  }
}

/** Aborts when the user does, or when nothing has come for a while. */
class Watchdog {
  readonly #silence = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly signal: AbortSignal;

  constructor(signal: AbortSignal, silenceMs: number) {
    this.signal = AbortSignal.any([signal, this.#silence.signal]);
    const seconds = Math.round(silenceMs / 1000);
    this.#timer = setTimeout(() => this.#silence.abort(new Error(`silent for ${seconds} s`)), silenceMs);
  }

  refresh(): void {
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch {
    return undefined;
  }
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

interface Reading {
  readonly signal: AbortSignal;
  readonly onProgress: (doneBytes: number, cameBytes: number) => void;
}

/** The checksum of a file while its content comes, in order. */
class ContentHash {
  readonly #file: HubFile;
  #hash: Hash;
  bytes = 0;

  constructor(file: HubFile) {
    this.#file = file;
    this.#hash = this.#start();
  }

  update(chunk: Uint8Array): void {
    this.#hash.update(chunk);
    this.bytes += chunk.length;
  }

  reset(): void {
    this.#hash = this.#start();
    this.bytes = 0;
  }

  async readFile(path: string, { signal, onProgress }: Reading): Promise<void> {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) {
      this.update(chunk as Buffer);
      onProgress(this.bytes, 0);
    }
  }

  /** True also where the hub gave no checksum: then the length has to do. */
  isRight(): boolean {
    const { checksum, sizeBytes } = this.#file;
    if (this.bytes !== sizeBytes) return false;
    return checksum === undefined || this.#hash.digest('hex') === checksum.hex.toLowerCase();
  }

  #start(): Hash {
    const { checksum, sizeBytes } = this.#file;
    if (checksum?.kind !== 'git') return createHash('sha256');
    return createHash('sha1').update(`blob ${sizeBytes}\0`);
  }
}
