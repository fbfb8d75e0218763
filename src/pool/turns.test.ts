// Models that fit only in turn, under random load: the real decisions, with a clock and requests that are played.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ModelMemory } from './model-memory.ts';
import { type Holder, shareMemory } from './share-memory.ts';
import { turnEndsMs } from './turns.ts';

const TICK_MS = 50;
/** Of the model and of its first blocks: half of the budget and a bit. */
const memory: ModelMemory = {
  kvType: 'f16',
  weightBytes: 60,
  blockBytes: 1,
  blockCount: 40,
  firstBlocks: 10,
  fixed: true,
};
const BUDGET = 100;

interface Request {
  readonly model: number;
  readonly atMs: number;
  readonly takesMs: number;
  readonly background: boolean;
}

interface Load {
  readonly models: number;
  readonly loadMs: number;
  readonly requests: readonly Request[];
}

class PlayedModel {
  loadedMs: number | undefined;
  readyMs: number | undefined;
  awaitedMs = 0;
  closed = false;
  readonly waiting: Request[] = [];
  readonly running: (Request & { readonly endsMs: number })[] = [];

  holder(name: string, nowMs: number, loadMs: number): Holder {
    const { loadedMs = 0, running, closed, waiting } = this;
    const awaited = running.some(({ background }) => !background);
    const use = awaited ? 'awaited' : running.length > 0 ? 'background' : 'idle';
    const awaitedMs = awaited ? nowMs : this.awaitedMs;
    return {
      name,
      memory,
      allowed: 10,
      counted: 10,
      heard: true,
      used: 0,
      wanted: 0,
      short: false,
      required: 0,
      state: this.loadedMs === undefined ? 'loading' : 'loaded',
      unloadable: this.loadedMs !== undefined && running.length === 0 && (closed || waiting.length === 0),
      pinned: false,
      turn: { loadedMs, loadMs, use, awaitedMs },
      lastUsed: 0,
      oldestMs: undefined,
    };
  }
}

/** What became of it: how long each request waited, and how often models were loaded. */
function play({ models, loadMs, requests }: Load) {
  const played = Array.from({ length: models }, () => new PlayedModel());
  const coming = [...requests].sort((a, b) => a.atMs - b.atMs);
  const waits: { readonly background: boolean; readonly ms: number }[] = [];
  let loads = 0;
  let nowMs = 0;
  for (; waits.length < requests.length; nowMs += TICK_MS) {
    if (nowMs > 3_600_000) throw new Error('somebody waits for ever');
    while (coming[0] !== undefined && coming[0].atMs <= nowMs) {
      const request = coming.shift() as Request;
      played[request.model]?.waiting.push(request);
    }
    for (const one of played) {
      if (one.readyMs !== undefined && one.readyMs <= nowMs) {
        one.loadedMs = nowMs;
        one.readyMs = undefined;
      }
      for (const ended of one.running.filter(({ endsMs }) => endsMs <= nowMs)) {
        one.running.splice(one.running.indexOf(ended), 1);
        if (!ended.background) one.awaitedMs = nowMs;
      }
    }
    const there = [...played.entries()].filter(
      ([, { loadedMs, readyMs }]) => loadedMs !== undefined || readyMs !== undefined,
    );
    const asked = [...played.entries()].filter(
      ([at, { waiting }]) => waiting.length > 0 && !there.some(([other]) => other === at),
    );
    const { unload, fitting, closed } = shareMemory(
      BUDGET,
      there.map(([at, one]) => one.holder(String(at), nowMs, loadMs)),
      asked.map(([at, { waiting }]) => ({
        name: String(at),
        memory,
        sinceMs: waiting[0]?.atMs as number,
        background: waiting.every(({ background }) => background),
      })),
      nowMs,
    );
    for (const name of unload) (played[Number(name)] as PlayedModel).loadedMs = undefined;
    for (const name of fitting) {
      (played[Number(name)] as PlayedModel).readyMs = nowMs + loadMs;
      loads++;
    }
    for (const [at, one] of played.entries()) {
      one.closed = closed.includes(String(at));
      if (one.loadedMs === undefined || one.closed) continue;
      for (const request of one.waiting.splice(0)) {
        waits.push({ background: request.background, ms: nowMs - request.atMs });
        one.running.push({ ...request, endsMs: nowMs + request.takesMs });
      }
    }
  }
  return { waits, loads, nowMs };
}

const loads: fc.Arbitrary<Load> = fc.record({
  models: fc.integer({ min: 2, max: 4 }),
  loadMs: fc.constantFrom(100, 1000, 4000),
  requests: fc
    .record({
      count: fc.integer({ min: 1, max: 80 }),
      everyMs: fc.integer({ min: 20, max: 1500 }),
      seeds: fc.array(fc.nat(1 << 20), { minLength: 7, maxLength: 7 }),
      backgroundShare: fc.constantFrom(0, 0, 0.5),
    })
    .map(({ count, everyMs, seeds, backgroundShare }) =>
      Array.from({ length: count }, (_, n) => {
        const chance = (salt: number) =>
          (Math.imul((seeds[n % 7] as number) + n * 7919 + salt, 0x9e3779b1) >>> 8) / 2 ** 24;
        return {
          model: Math.floor(chance(1) * 4),
          atMs: n * everyMs,
          takesMs: TICK_MS + Math.floor(chance(2) * 2000),
          background: chance(3) < backgroundShare,
        };
      }),
    ),
});

const withinModels = ({ requests, ...load }: Load): Load => ({
  ...load,
  requests: requests.map((request) => ({ ...request, model: request.model % load.models })),
});

describe('models that fit only in turn', () => {
  it('all have their turn, after one of each other model at most, and are not loaded more often than is worth it', () => {
    fc.assert(
      fc.property(loads.map(withinModels), (load) => {
        const { waits, loads, nowMs } = play(load);
        const unitMs = Math.max(500, load.loadMs);
        const turnMs = 4 * unitMs + 2000 + load.loadMs + 4 * TICK_MS;
        const longestMs = Math.max(0, ...waits.map(({ background, ms }) => (background ? 0 : ms)));
        expect(longestMs).toBeLessThanOrEqual(load.models * turnMs);
        expect(loads).toBeLessThanOrEqual(1 + nowMs / (load.loadMs + unitMs));
      }),
      { numRuns: 40 },
    );
  });

  it('change places under steady load for both, though neither is ever idle', () => {
    const requests = Array.from({ length: 400 }, (_, n) => ({
      model: n % 2,
      atMs: n * 100,
      takesMs: 500,
      background: false,
    }));
    const { loads, waits } = play({ models: 2, loadMs: 1000, requests });
    expect(loads).toBeGreaterThan(4);
    expect(Math.max(...waits.map(({ ms }) => ms))).toBeLessThan(8000);
  });

  it('stay with requests that are awaited, though background ones for another wait', () => {
    const requests = Array.from({ length: 200 }, (_, n) => ({
      model: n % 2,
      atMs: n * 100,
      takesMs: 500,
      background: n % 2 === 1,
    }));
    const { loads, waits } = play({ models: 2, loadMs: 1000, requests });
    expect(loads).toBe(2);
    expect(Math.max(...waits.map(({ background, ms }) => (background ? 0 : ms)))).toBeLessThan(1100);
  });
});

describe('a background load', () => {
  it('has its turn in the end, though awaited requests for the loaded model never pause', () => {
    const requests = Array.from({ length: 700 }, (_, n) => ({
      model: Number(n === 0),
      atMs: 1500 + n * 100,
      takesMs: 500,
      background: n === 0,
    }));
    requests.unshift({ model: 0, atMs: 0, takesMs: 500, background: false });
    const { loads } = play({ models: 2, loadMs: 1000, requests });
    expect(loads).toBeGreaterThan(1);
  });
});

describe('a turn', () => {
  it('is a multiple of what the load took, within bounds, and longer where background requests wait', () => {
    const turn = { loadedMs: 1000, loadMs: 2000, use: 'awaited', awaitedMs: 5000 } as const;
    expect(turnEndsMs(turn, false)).toBe(9000);
    expect(turnEndsMs({ ...turn, loadMs: 1 }, false)).toBe(3000);
    expect(turnEndsMs({ ...turn, loadMs: 1e6 }, false)).toBe(61_000);
    expect(turnEndsMs({ ...turn, use: 'idle' }, false)).toBe(3000);
    expect(turnEndsMs(turn, true)).toBe(81_000);
    expect(turnEndsMs({ ...turn, use: 'idle' }, true)).toBe(13_000);
    // One that becomes idle when its turn is over does not begin another.
    expect(turnEndsMs({ ...turn, use: 'idle', awaitedMs: 81_000 }, true)).toBe(81_000);
  });
});
