// Which prefixes lie below the memory of workers: in the memory of each machine, and in folders that several may read. A folder is
// one holder for all its readers, and one of these, the reporter, is listened to.

import type { TierName } from '../../engine/scheduler/lower-tiers.ts';
import { type CacheBatch, type CacheEventOutcome, CacheEvents, type CacheSnapshot } from './cache-events.ts';
import type { TierReport } from './heartbeat.ts';
import type { PrefixIndex } from './prefix-index.ts';

/** Keys that are known of one tier; what it holds beyond that is not known, and is computed again elsewhere. */
export const MOST_TIER_KEYS = 2 ** 20;

/** Blocks of a prompt by where they lie; by worker number. All zeros between decisions. */
export interface FoundPrefixes {
  readonly memory: Int32Array;
  readonly host: Int32Array;
  readonly disk: Int32Array;
}

/** `unasked`: another worker speaks for the folder, or the worker has no such tier. */
export type TierOutcome = CacheEventOutcome | 'unasked';

/** What one worker tells of its tiers. */
export interface WorkerTiers {
  /** Whether it is to be asked: of its own memory, and of a folder that it speaks for. */
  isReporter(tier: TierName): boolean;
  apply(tier: TierName, batch: CacheBatch): TierOutcome;
  /** All that a tier holds, or the first piece of it. */
  replace(tier: TierName, snapshot: CacheSnapshot): TierOutcome;
  /** A further piece; `missed` where the tier began anew meanwhile. */
  extend(tier: TierName, piece: CacheSnapshot): TierOutcome;
  /** Whether everything up to this number is known. */
  isCurrent(tier: TierName, told: Omit<CacheSnapshot, 'keys'>): boolean;
}

interface TieredWorker {
  readonly name: string;
  report: TierReport;
}

export class TierHolders {
  readonly #index: PrefixIndex;
  readonly #events: CacheEvents;
  readonly #workers = new Map<number, TieredWorker>();
  /** By folder: the worker that speaks for it. */
  readonly #reporters = new Map<string, string>();
  /** By folder, for one walk: where the run of blocks that begins at each block ends. */
  readonly #runs = new Map<string, Int32Array>();

  constructor(index: PrefixIndex) {
    this.#index = index;
    this.#events = new CacheEvents(index, MOST_TIER_KEYS);
  }

  get size(): number {
    return this.#workers.size;
  }

  set(worker: number, name: string, report: TierReport | undefined): void {
    const known = this.#workers.get(worker);
    if (report === undefined) {
      if (known !== undefined) this.delete(worker);
      return;
    }
    this.#workers.set(worker, { name, report });
    const folder = known?.report.disk?.folder;
    if (folder !== undefined && folder !== report.disk?.folder) this.#leave(folder, name);
    const own = report.disk?.folder;
    // Whoever speaks for it goes on, so that nothing is asked again.
    if (own !== undefined && !this.#reporters.has(own)) this.#reporters.set(own, name);
    if (report.hostBlockMs === undefined) this.#events.forget(hostOf(name));
  }

  delete(worker: number): void {
    const known = this.#workers.get(worker);
    if (known === undefined) return;
    this.#workers.delete(worker);
    this.#events.forget(hostOf(known.name));
    const folder = known.report.disk?.folder;
    if (folder !== undefined) this.#leave(folder, known.name);
  }

  /** Their numbers. */
  workers(): IterableIterator<number> {
    return this.#workers.keys();
  }

  reportOf(worker: number): TierReport | undefined {
    return this.#workers.get(worker)?.report;
  }

  of(worker: number): WorkerTiers {
    const tell = (tier: TierName, told: (holder: string) => CacheEventOutcome): TierOutcome => {
      const holder = this.#holderOf(worker, tier);
      return holder === undefined ? 'unasked' : told(holder);
    };
    return {
      isReporter: (tier) => this.#holderOf(worker, tier) !== undefined,
      apply: (tier, batch) => tell(tier, (holder) => this.#events.apply(holder, batch)),
      replace: (tier, snapshot) => tell(tier, (holder) => this.#events.replace(holder, snapshot)),
      extend: (tier, piece) => tell(tier, (holder) => this.#events.extend(holder, piece)),
      isCurrent: (tier, { epoch, number }) => {
        const holder = this.#holderOf(worker, tier);
        return holder !== undefined && this.#events.isCurrent(holder, epoch, number);
      },
    };
  }

  /** Adds, for the last walk of the index, what each worker could load after the blocks that it has in memory. */
  find(found: FoundPrefixes): void {
    this.#runs.clear();
    for (const [worker, { name, report }] of this.#workers) {
      const host = report.hostBlockMs === undefined ? undefined : this.#events.partOf(hostOf(name));
      const runs = report.disk === undefined ? undefined : this.#runsOf(report.disk.folder);
      if (host === undefined && runs === undefined) continue;
      let block = found.memory[worker] as number;
      let [hostBlocks, diskBlocks] = [0, 0];
      while (block < this.#index.known) {
        if (host !== undefined && this.#index.holds(host, block)) {
          hostBlocks += 1;
          block += 1;
          continue;
        }
        const end = runs?.[block] ?? block;
        if (end === block) break;
        diskBlocks += end - block;
        block = end;
      }
      found.host[worker] = hostBlocks;
      found.disk[worker] = diskBlocks;
    }
  }

  clear({ host, disk }: FoundPrefixes): void {
    for (const worker of this.#workers.keys()) {
      host[worker] = 0;
      disk[worker] = 0;
    }
  }

  #runsOf(folder: string): Int32Array {
    const made = this.#runs.get(folder);
    if (made !== undefined) return made;
    const part = this.#events.partOf(diskOf(folder));
    const { known } = this.#index;
    const runs = new Int32Array(known + 1);
    runs[known] = known;
    for (let block = known - 1; block >= 0; block--) {
      const isHeld = part !== undefined && this.#index.holds(part, block);
      runs[block] = isHeld ? Math.max(block + 1, runs[block + 1] as number) : block;
    }
    this.#runs.set(folder, runs);
    return runs;
  }

  #holderOf(worker: number, tier: TierName): string | undefined {
    const known = this.#workers.get(worker);
    if (known === undefined) return undefined;
    const { name, report } = known;
    if (tier === 'host') return report.hostBlockMs === undefined ? undefined : hostOf(name);
    const folder = report.disk?.folder;
    return folder !== undefined && this.#reporters.get(folder) === name ? diskOf(folder) : undefined;
  }

  /** Another reader speaks for the folder from now on; what is known of it holds until that one has said what it holds. */
  #leave(folder: string, name: string): void {
    if (this.#reporters.get(folder) !== name) return;
    const next = [...this.#workers.values()].find(
      (other) => other.name !== name && other.report.disk?.folder === folder,
    );
    if (next !== undefined) {
      this.#reporters.set(folder, next.name);
      return;
    }
    this.#reporters.delete(folder);
    this.#events.forget(diskOf(folder));
  }
}

function hostOf(worker: string): string {
  return `host ${worker}`;
}

function diskOf(folder: string): string {
  return `disk ${folder}`;
}
