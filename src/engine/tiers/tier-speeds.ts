// How long blocks take to come up, by what was measured: reading of the disk and copying into the engine's memory follow each other.

import type { BlockTierStats } from '../../block-store/block-tier.ts';

/** What is believed before anything was measured, with the weight of so many bytes. */
const DISK_BYTES_PER_MS = 400_000;
const COPY_BYTES_PER_MS = 2_000_000;
const BELIEVED_BYTES = 32 << 20;
/** Once the new counts so much, older measurements count half. */
const HALVED_AFTER_BYTES = 1 << 30;

export interface BlockLoad {
  readonly hostMs: number;
  readonly diskMs: number;
  /** Not all of it was measured: it is what is believed of any disk and memory. */
  readonly isAssumed: boolean;
}

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
  #hasCopied = false;

  copied(bytes: number, ms: number): void {
    this.#hasCopied ||= bytes > 0;
    this.#copiedBytes += bytes;
    this.#copyMs += Math.max(0, ms);
    if (this.#copiedBytes < HALVED_AFTER_BYTES) return;
    this.#copiedBytes /= 2;
    this.#copyMs /= 2;
  }

  /** What one block takes, with nothing else on its way. */
  block(bytes: number, disk: Wanted['disk']): BlockLoad {
    return {
      hostMs: rounded(this.loadMs({ bytes, diskBytes: 0, disk })),
      diskMs: rounded(this.loadMs({ bytes, diskBytes: bytes, disk })),
      isAssumed: !this.#hasCopied || (disk !== undefined && disk.bytesRead === 0),
    };
  }

  loadMs({ bytes, diskBytes, disk }: Wanted): number {
    const read = BELIEVED_BYTES + (disk?.bytesRead ?? 0);
    const readMs = BELIEVED_BYTES / DISK_BYTES_PER_MS + (disk?.readMs ?? 0);
    return (bytes * this.#copyMs) / this.#copiedBytes + (diskBytes * readMs) / read;
  }
}

/** To what matters, so that it does not change with every load. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(3));
}
