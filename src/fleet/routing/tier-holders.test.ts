import { describe, expect, it } from 'vitest';
import { idleLoad } from '../../../test/support/idle-load.ts';
import type { TierName } from '../../engine/scheduler/lower-tiers.ts';
import type { CacheBatch } from './cache-events.ts';
import type { LoadedModelStatus, TierReport } from './heartbeat.ts';
import { promptKeys } from './prefix-keys.ts';
import { type RoutedRequest, Router } from './router.ts';
import type { WorkerTiers } from './tier-holders.ts';

const idle: LoadedModelStatus = {
  modelKey: 'model',
  ...idleLoad,
};
const tokens = Int32Array.from({ length: 512 }, (_, i) => i);
const keys = promptKeys({ modelKey: 'model', salt: ':', tokens });
const request: RoutedRequest = {
  modelKey: 'model',
  keys,
  promptTokens: 512,
  expectedTokens: 10,
  maxTokens: 20,
  priority: 1,
  ageMs: 0,
  conversation: 'one',
};
const busy = { queuedTokens: [0, 3000, 0], waiting: [0, 2, 0] } as const;
/** Computing a block takes 96 ms. */
const folder: TierReport = { disk: { folder: 'f', blockMs: 5 }, isAssumed: false };
const host: TierReport = { hostBlockMs: 1, isAssumed: false };
const nothing = new Int32Array(0);

const keysOf = (from: number, to: number) => keys.slice(2 * from, 2 * to);
const entering = (from: number, to: number, number = 1, epoch = 'a'): CacheBatch => ({
  ...{ epoch, number, entered: keysOf(from, to), left: nothing },
});

class Fleet {
  readonly router = new Router({ gateway: 'here', maxIndexEntries: 1000 });
  #number = 0;

  hear(worker: string, model: Partial<LoadedModelStatus> = {}): void {
    const rest = { epoch: worker, number: ++this.#number, draining: false, heard: {} };
    this.router.heartbeat({ worker, ...rest, models: [{ ...idle, ...model }] }, 0);
  }

  memory(worker: string, blocks: number): void {
    this.router.cacheBatch(worker, 'model', entering(0, blocks));
  }

  tier(worker: string, tier: TierName, batch: CacheBatch): string {
    return this.of(worker)?.apply(tier, batch) ?? 'unknown';
  }

  of(worker: string): WorkerTiers | undefined {
    return this.router.tiersOf(worker, 'model');
  }

  choose(asked: Partial<RoutedRequest> = {}) {
    const decision = this.router.choose({ ...request, ...asked }, 0);
    if (decision.kind !== 'worker') throw new Error(decision.kind);
    return decision;
  }
}

describe('prefixes below memory', () => {
  it('in a folder are found by each of its readers: a busy one is left for one that can load', () => {
    const fleet = new Fleet();
    fleet.hear('a', { ...busy, tiers: folder });
    fleet.hear('b', { tiers: folder });
    fleet.hear('c', { tiers: { disk: { folder: 'another', blockMs: 5 }, isAssumed: false } });
    fleet.memory('a', 15);
    expect(fleet.tier('a', 'disk', entering(0, 15))).toBe('applied');
    for (const conversation of ['one', 'two', 'three', 'four']) {
      const { worker, prefix } = fleet.choose({ conversation });
      expect([worker, prefix]).toEqual(['b', { memoryBlocks: 0, hostBlocks: 0, diskBlocks: 15, loadMs: 75 }]);
    }
  });

  it('are worth less than those in memory, and nothing where computing is faster', () => {
    const fleet = new Fleet();
    fleet.hear('loads', { tiers: folder });
    fleet.hear('has');
    fleet.tier('loads', 'disk', entering(0, 15));
    fleet.memory('has', 15);
    expect(fleet.choose().worker).toBe('has');
    const loads = fleet.choose({ excluded: new Set(['has']) });
    const has = fleet.choose({ excluded: new Set(['loads']) });
    expect(loads.expected.firstTokenMs - has.expected.firstTokenMs).toBe(75);
    fleet.hear('loads', { tiers: { disk: { folder: 'f', blockMs: 97 }, isAssumed: false } });
    const slow = fleet.choose({ excluded: new Set(['has']) });
    expect(slow.prefix).toEqual({ memoryBlocks: 0, hostBlocks: 0, diskBlocks: 0, loadMs: 0 });
    expect(slow.expected.firstTokenMs).toBeGreaterThan(1000);
  });

  it('go on from those in memory, through host and folder in turns, and end at the first gap', () => {
    const fleet = new Fleet();
    fleet.hear('a', { tiers: { ...host, ...folder } });
    fleet.memory('a', 3);
    fleet.tier('a', 'host', entering(3, 5));
    fleet.tier('a', 'disk', entering(4, 8));
    fleet.tier('a', 'host', entering(8, 9, 2));
    // What memory holds beyond a gap is of no use to an engine.
    fleet.tier('a', 'disk', entering(10, 12, 2));
    const { prefix } = fleet.choose();
    expect(prefix).toEqual({ memoryBlocks: 3, hostBlocks: 3, diskBlocks: 3, loadMs: 18 });
    const assignment = fleet.router.assign('a', request, prefix);
    expect(assignment).toMatchObject({ tokens: 512 - 9 * 32, blocks: 16 - 3 });
  });

  it('of a machine end with their worker, and of a folder with the last reader', () => {
    const fleet = new Fleet();
    fleet.hear('a', { tiers: { ...host, ...folder } });
    fleet.hear('b', { tiers: folder });
    fleet.tier('a', 'host', entering(0, 2));
    fleet.tier('a', 'disk', entering(0, 4));
    expect(fleet.tier('b', 'disk', entering(0, 9)), 'one reader speaks for it').toBe('unasked');
    fleet.router.remove('a');
    expect(fleet.choose().prefix).toMatchObject({ hostBlocks: 0, diskBlocks: 4 });
    expect(fleet.of('b')?.isReporter('disk')).toBe(true);
    // The next reader numbers its batches itself: what is known holds until it has said what there is.
    const piece = { epoch: 'b', number: 7, keys: keysOf(0, 2) };
    expect(fleet.of('b')?.replace('disk', piece)).toBe('applied');
    expect(fleet.of('b')?.extend('disk', { ...piece, keys: keysOf(2, 6) })).toBe('applied');
    expect(fleet.of('b')?.isCurrent('disk', piece)).toBe(true);
    expect(fleet.choose().prefix.diskBlocks).toBe(6);
    fleet.router.remove('b');
    fleet.hear('c', { tiers: folder });
    expect(fleet.choose().prefix.diskBlocks).toBe(0);
  });

  it('that were missed are noticed by their numbers, and a list of another life is not gone on with', () => {
    const fleet = new Fleet();
    fleet.hear('a', { tiers: folder });
    expect(fleet.tier('a', 'disk', entering(0, 1))).toBe('applied');
    expect(fleet.tier('a', 'disk', entering(2, 3, 3))).toBe('missed');
    const known = { epoch: 'a', number: 3 };
    expect(fleet.of('a')?.isCurrent('disk', known)).toBe(false);
    expect(fleet.of('a')?.replace('disk', { ...known, keys: keysOf(0, 3) })).toBe('applied');
    expect(fleet.of('a')?.extend('disk', { ...known, epoch: 'b', keys: keysOf(3, 9) })).toBe('missed');
    expect(fleet.choose().prefix.diskBlocks).toBe(3);
    expect(fleet.tier('b', 'disk', entering(0, 1))).toBe('unknown');
    expect(fleet.tier('a', 'host', entering(0, 1))).toBe('unasked');
  });

  it('leave no trace of a request in the next one', () => {
    const fleet = new Fleet();
    fleet.hear('a', { tiers: folder });
    fleet.tier('a', 'disk', entering(0, 15));
    expect(fleet.choose().prefix.diskBlocks).toBe(15);
    const other = promptKeys({ modelKey: 'model', salt: ':other', tokens });
    expect(fleet.choose({ keys: other }).prefix).toMatchObject({ memoryBlocks: 0, diskBlocks: 0 });
    fleet.hear('a');
    expect(fleet.choose().prefix.diskBlocks, 'it has no folder any more').toBe(0);
    fleet.hear('a', { tiers: host });
    fleet.tier('a', 'host', entering(0, 5));
    expect(fleet.choose().prefix.hostBlocks).toBe(5);
    fleet.hear('a');
    fleet.hear('a', { tiers: host });
    expect(fleet.choose().prefix.hostBlocks, 'nothing was said of it since').toBe(0);
  });
});
