// The checksum of a file while its content comes, in order.

import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { HubFile } from './hub.ts';

interface Reading {
  readonly signal: AbortSignal;
  readonly onProgress: (doneBytes: number, cameBytes: number) => void;
}

export class ContentHash {
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
