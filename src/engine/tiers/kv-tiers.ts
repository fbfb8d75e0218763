// Tiers below the KV blocks of an engine's memory: what is evicted goes down, what a sequence wants comes up while it waits. All
// copies are made between steps, a few at a time; what a disk does is waited for by nobody but the sequence that loads.

import type { BlockTier } from '../../block-store/block-tier.ts';
import { BLOCK_TOKENS, type KvContent } from '../../compute/backend.ts';
import type { BlockHolder } from '../cache/block-holder.ts';
import { type CacheListener, fullBlocks, reusableBlocks } from '../cache/block-tables.ts';
import type { LoadOffer, LowerTiers, TierName } from '../scheduler/lower-tiers.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import type { Loading, Sequence } from '../scheduler/sequence.ts';
import { BlockKeys, type ModelIdentity, stateKey, tenantOf } from './block-keys.ts';
import { Load } from './load.ts';
import { SaveQueue } from './save-queue.ts';
import { StoredBlocks } from './stored-blocks.ts';
import { StoredKeyLog, type StoredKeys } from './stored-keys.ts';
import { TierSpeeds } from './tier-speeds.ts';
import type { TierStats } from './tier-stats.ts';

/** Sequences that are read ahead for at once; others load when their turn comes. */
const MOST_READING = 2;
/** Bytes that are copied between two checks of the clock. */
const PIECE_BYTES = 1 << 20;

interface KvTiersOptions {
  readonly content: KvContent;
  readonly hostBytes: number;
  /** The clock of steps. */
  readonly nowMs: () => number;
  /** Something can be copied now. */
  readonly wake: () => void;
}

export class KvTiers implements LowerTiers, CacheListener {
  readonly #content: KvContent;
  readonly #nowMs: () => number;
  readonly #wake: () => void;
  readonly #stored: StoredBlocks;
  readonly #speeds = new TierSpeeds();
  readonly #loads = new Set<Load>();
  readonly #counts = { loads: 0, failedLoads: 0, loadedBlocks: 0, diskBlocks: 0 };
  #scheduler: Scheduler | undefined;
  /** Set while somebody wants to know what the tiers hold. */
  #onStored: (() => void) | undefined;
  #logs: StoredKeyLog[] = [];
  /** Once it is known which model it is. */
  #keys: BlockKeys | undefined;
  #saves: SaveQueue | undefined;

  constructor({ content, hostBytes, nowMs, wake }: KvTiersOptions) {
    this.#content = content;
    this.#nowMs = nowMs;
    this.#wake = wake;
    this.#stored = new StoredBlocks(hostBytes);
  }

  get stored(): StoredBlocks {
    return this.#stored;
  }

  /** The scheduler asks from now on, and its cache is listened to. */
  serve(scheduler: Scheduler): void {
    this.#scheduler = scheduler;
    scheduler.tables.listener = this;
  }

  /** From here on blocks are kept; on a disk, too, where there is one. */
  open(identity: ModelIdentity, disk?: BlockTier): void {
    const { tables } = this.#served;
    this.#keys = new BlockKeys(tables.prefixes, identity);
    if (disk !== undefined) this.#attach(disk);
    const { recurrentStates } = tables;
    this.#saves = new SaveQueue({
      content: this.#content,
      keys: this.#keys,
      stored: this.#stored,
      isCached: (block) => tables.pool.isCached(block),
      stateAfter: (block) => recurrentStates?.checkpointAfter(block),
      wake: this.#wake,
    });
    for (const block of tables.prefixes.blocks()) this.#saves.add(block);
    this.#wake();
  }

  #attach(disk: BlockTier): void {
    this.#stored.attach(disk);
    if (this.#onStored !== undefined) this.#follow('disk', disk, this.#onStored);
  }

  /** From now on it writes down which prefixes the tiers hold, all of them first; `onNews`: there is something to take. Undefined: no more. */
  followStored(onNews: (() => void) | undefined): void {
    const { host, disk } = this.#stored;
    this.#onStored = onNews;
    this.#logs = [];
    host?.followLabels(undefined);
    disk?.followLabels(undefined);
    if (onNews === undefined) return;
    if (host !== undefined) this.#follow('host', host, onNews);
    if (disk !== undefined) this.#follow('disk', disk, onNews);
  }

  #follow(tier: TierName, followed: Pick<BlockTier, 'followLabels'>, onNews: () => void): void {
    const log = new StoredKeyLog(tier, onNews);
    this.#logs.push(log);
    followed.followLabels(log);
    onNews();
  }

  /** What is new of each tier, some thousand keys; there may be more. */
  takeStored(): StoredKeys[] {
    return this.#logs.flatMap((log) => log.take() ?? []);
  }

  get hasStoredNews(): boolean {
    return this.#logs.some(({ hasMore }) => hasMore);
  }

  /** Whether anything can be copied now, or is to be told to the scheduler. */
  get hasWork(): boolean {
    if (this.#saves?.hasWork === true) return true;
    const nowMs = this.#nowMs();
    return [...this.#loads].some((load) => load.isReady(nowMs));
  }

  get isLoading(): boolean {
    return this.#loads.size > 0;
  }

  stats(): TierStats {
    const [host, disk] = [this.#stored.host?.stats(), this.#stored.disk?.stats()];
    const isEmpty = host === undefined && disk === undefined;
    return {
      host,
      disk,
      ...this.#counts,
      loading: this.#loads.size,
      unsaved: this.#saves?.size ?? 0,
      holder: this.#stored.disk?.holder,
      block: isEmpty ? undefined : this.#speeds.block(this.#content.blockBytes, disk),
    };
  }

  /** See LowerTiers. */
  offer(holder: BlockHolder, found: readonly number[], resumable: number): LoadOffer | undefined {
    const most = reusableBlocks(holder);
    if (this.#keys === undefined || resumable >= most) return undefined;
    if (this.#stored.isRemoved(tenantOf(holder.salt))) return undefined;
    const keys = this.#keys.chain(holder, most);
    const run = this.#stored.run(keys.slice(found.length));
    const reach = found.length + (run?.blocks ?? 0);
    const end = this.#served.tables.recurrentStates === undefined ? reach : this.#stateEnd(keys, reach);
    if (end <= resumable) return undefined;
    const blocks = Math.max(0, end - found.length);
    const states = end > 0 && this.#content.stateBytes > 0 ? this.#content.stateBytes : 0;
    const onDisk = Math.min(run?.diskBlocks ?? 0, blocks);
    const stateOnDisk = states > 0 && this.#stored.host?.has(stateKey(keys[end - 1] as Buffer)) !== true;
    const waiting = [...this.#loads].reduce((sum, load) => sum + load.leftBytes, 0);
    const ms = this.#speeds.loadMs({
      bytes: waiting + blocks * this.#content.blockBytes + states,
      diskBytes: onDisk * this.#content.blockBytes + (stateOnDisk ? states : 0),
      disk: this.#stored.disk?.stats(),
    });
    return { end, ms, tier: onDisk > 0 || stateOnDisk ? 'disk' : 'host' };
  }

  /** The last block up to `reach` after which recurrent states are kept. */
  #stateEnd(keys: readonly Buffer[], reach: number): number {
    for (let end = reach; end > 0; end--) if (this.#stored.has(stateKey(keys[end - 1] as Buffer))) return end;
    return 0;
  }

  /** Takes up what a plan wants loaded. */
  begin(sequences: readonly Sequence[]): void {
    for (const sequence of sequences) {
      const { loading, computed } = sequence;
      if (loading === undefined) continue;
      const first = computed / BLOCK_TOKENS;
      const chain = (this.#keys as BlockKeys).chain(sequence, loading.end);
      const states = this.#content.stateBytes > 0 ? [stateKey(chain.at(-1) as Buffer)] : [];
      const blocks = loading.end - first;
      const sizeOf = (index: number) =>
        index < blocks ? this.#content.blockBytes : this.#content.stateBytes;
      const keys = [...chain.slice(first), ...states];
      const parts = { sequence, keys, first, sizeOf, beganMs: this.#nowMs() };
      this.#loads.add(new Load(parts, this.#stored, this.#wake));
      this.#counts.loads += 1;
    }
    this.#fetch();
  }

  /** What was evicted since the last call is copied out, before anything is written in its place. */
  saveEvicted(): void {
    this.#saves?.saveEvicted();
  }

  /** Copies for about so long: first what sequences wait for, then what is to be kept. */
  advance(budgetMs: number): void {
    this.saveEvicted();
    const untilMs = this.#nowMs() + budgetMs;
    for (const load of this.#loads) {
      this.#write(load, untilMs);
      if (this.#nowMs() >= untilMs) break;
    }
    this.#fetch();
    this.#saves?.save(() => this.#nowMs() < untilMs);
  }

  #write(load: Load, untilMs: number): void {
    if (!load.isWanted) {
      this.#end(load);
      return;
    }
    const { sequence, first } = load;
    const startedMs = this.#nowMs();
    let written = 0;
    let piece = 0;
    while (!load.isDone) {
      const bytes = load.take(this.#nowMs());
      if (bytes === undefined) break;
      if (bytes === null || !this.#put(load, bytes)) {
        this.#tell(load);
        this.#counts.failedLoads += 1;
        this.#finish(load);
        return;
      }
      load.written();
      written += bytes.length;
      piece += bytes.length;
      if (piece < PIECE_BYTES) continue;
      piece = 0;
      if (this.#nowMs() >= untilMs) break;
    }
    this.#speeds.copied(written, this.#nowMs() - startedMs);
    load.giveBack();
    this.#tell(load);
    if (!load.isDone) return;
    const { end, tier } = sequence.loading as Loading;
    this.#counts.loadedBlocks += end - first;
    if (tier === 'disk') this.#counts.diskBlocks += end - first;
    load.touch();
    this.#finish(load);
  }

  /** False where it is not what it should be. */
  #put(load: Load, bytes: Uint8Array): boolean {
    const { sequence, first, next } = load;
    const { end } = sequence.loading as Loading;
    if (first + next < end) {
      if (bytes.length !== this.#content.blockBytes) return false;
      this.#content.writeBlock(sequence.blocks[first + next] as number, bytes);
      return true;
    }
    const slot = sequence.recurrent?.written.at(-1)?.slot;
    if (bytes.length !== this.#content.stateBytes || slot === undefined) return false;
    this.#content.writeState(slot, bytes);
    return true;
  }

  /** Blocks are of use at once; with recurrent states they all come together. */
  #tell({ sequence, first, next, isDone }: Load): void {
    if (this.#content.stateBytes > 0 && !isDone) return;
    const before = fullBlocks(sequence);
    const end = Math.min(first + next, (sequence.loading as Loading).end);
    if (end > before || isDone) this.#served.loaded(sequence, end);
    // They are below already.
    for (const block of sequence.blocks.slice(before, end)) this.#saves?.noteKept(block);
  }

  #finish(load: Load): void {
    this.#end(load);
    this.#served.endLoading(load.sequence);
  }

  #end(load: Load): void {
    load.end();
    this.#loads.delete(load);
  }

  #fetch(): void {
    let reading = 0;
    for (const load of this.#loads) {
      if (reading++ === MOST_READING) return;
      load.fetch();
    }
  }

  /** See CacheListener. */
  evicting(block: number): void {
    this.#saves?.evicting(block);
    this.#keys?.forget(block);
  }

  evictingState(slot: number, block: number): void {
    this.#saves?.evictingState(slot, block);
  }

  dropping(block: number): void {
    this.#saves?.forget(block);
    this.#keys?.forget(block);
  }

  released(holder: BlockHolder): void {
    for (const block of holder.blocks.slice(0, fullBlocks(holder))) this.#saves?.add(block);
  }

  /** Deletes what was kept of a tenant; how many blocks. */
  async remove(tenant: string): Promise<number> {
    return this.#stored.remove(tenant);
  }

  /** Writes down what is in memory alone, until the signal is aborted. The engine computes no more. */
  async close(signal: AbortSignal): Promise<void> {
    for (const load of this.#loads) this.#end(load);
    await this.#saves?.saveAll(this.#served.tables.prefixes.blocks(), signal);
    await this.#stored.disk?.close(signal);
  }

  get #served(): Scheduler {
    if (this.#scheduler === undefined) throw new Error('no scheduler is served');
    return this.#scheduler;
  }
}
