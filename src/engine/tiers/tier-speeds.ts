// How long blocks take to come up, by what was measured: reading of the disk and copying into the engine's memory follow each other.

import type { BlockTierStats } from '../../block-store/block-tier.ts';

/** What is believed before anything was measured, with the weight of so many bytes. */
const DISK_BYTES_PER_MS = 400_000;
const COPY_BYTES_PER_MS = 2_000_000;
const BELIEVED_BYTES = 32 << 20;
/** Once the new counts so much, older measurements count half. */
const HALVED_AFTER_BYTES = 1 << 30;

interface Wanted {
  /** All of it, with what is on its way already. */
  readonly bytes: number;
  /** Of them, those on the disk. */
  readonly diskBytes: number;
  readonly disk: Pick<BlockTierStats, 'bytesRead' | 'readMs'> | undefined;
}

export class TierSpeeds {
  #copiedBytes = BELIEVED_BYTES;
  #copyMs = BELIEVED_BYTES / COPY_BYTES_PER_MS;

  copied(bytes: number, ms: number): void {
    this.#copiedBytes += bytes;
    this.#copyMs += Math.max(0, ms);
    if (this.#copiedBytes < HALVED_AFTER_BYTES) return;
    this.#copiedBytes /= 2;
    this.#copyMs /= 2;
  }

  loadMs({ bytes, diskBytes, disk }: Wanted): number {
    const read = BELIEVED_BYTES + (disk?.bytesRead ?? 0);
    const readMs = BELIEVED_BYTES / DISK_BYTES_PER_MS + (disk?.readMs ?? 0);
    return (bytes * this.#copyMs) / this.#copiedBytes + (diskBytes * readMs) / read;
  }
}
