// The sharing of memory, with engines that are played: their sequences grow and wait as real ones do, and they hear
// and answer late.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockUser, type SequenceNeed } from '../../test/support/block-user.ts';
import { holdingBytes, MemoryLedger } from './memory-ledger.ts';
import type { ModelMemory } from './model-memory.ts';
import { type Holder, type Sharing, shareMemory as shareMemoryAt, type WaitingLoad } from './share-memory.ts';

/** Whenever that is. */
const NOW = 1e6;

const shareMemory = (budget: number, holders: readonly Holder[], loads: readonly WaitingLoad[]) =>
  shareMemoryAt(budget, holders, loads, NOW);

const memory = (more: Partial<ModelMemory> = {}): ModelMemory => ({
  kvType: 'f16',
  weightBytes: 100,
  blockBytes: 1,
  blockCount: 1000,
  firstBlocks: 10,
  fixed: false,
  ...more,
});

const holder = (name: string, more: Partial<Holder> = {}): Holder => ({
  name,
  memory: memory(),
  allowed: 10,
  counted: more.allowed ?? 10,
  heard: true,
  used: 0,
  wanted: 0,
  short: (more.wanted ?? 0) > (more.allowed ?? 10),
  required: 0,
  state: 'loaded',
  unloadable: false,
  pinned: false,
  lastUsed: 0,
  oldestMs: undefined,
  ...more,
});

const load = (name: string, sinceMs = 0): WaitingLoad => ({
  name,
  memory: memory(),
  sinceMs,
  background: false,
});

const limits = ({ allow }: Sharing) => Object.fromEntries(allow.map(({ name, blocks }) => [name, blocks]));

describe('an engine that wants more blocks', () => {
  it('has its limit doubled while memory is free', () => {
    const pressed = holder('a', { allowed: 40, used: 40, wanted: 41, oldestMs: 1 });
    expect(limits(shareMemory(1000, [pressed], []))).toEqual({ a: 80 });
    expect(limits(shareMemory(1000, [{ ...pressed, short: false }], []))).toEqual({ a: 80 });
    expect(limits(shareMemory(150, [pressed], []))).toEqual({ a: 50 });
    expect(limits(shareMemory(1000, [{ ...pressed, wanted: 40 }], []))).toEqual({});
  });

  it('gets what others may hold but do not use, the least recently used first, and waits until it is free', () => {
    const pressed = holder('a', { allowed: 40, used: 40, wanted: 60, oldestMs: 1 });
    const older = holder('b', { allowed: 25, used: 5, lastUsed: 1 });
    const newer = holder('c', { allowed: 50, used: 45, lastUsed: 2 });
    const sharing = shareMemory(300 + 115, [pressed, older, newer], []);
    expect(limits(sharing)).toEqual({ b: 10, c: 45 });
    // Told, but not confirmed: nothing more is asked of anybody.
    const told = [pressed, { ...older, allowed: 10, heard: false }, { ...newer, allowed: 45, heard: false }];
    expect(limits(shareMemory(300 + 115, told, []))).toEqual({});
    const given = [pressed, { ...older, allowed: 10, counted: 10 }, { ...newer, allowed: 45, counted: 45 }];
    expect(limits(shareMemory(300 + 115, given, []))).toEqual({ a: 60 });
  });

  it('takes nothing from anybody for its prefix cache alone', () => {
    const pressed = holder('a', { allowed: 40, used: 20, wanted: 60, oldestMs: 1, short: false });
    expect(limits(shareMemory(200 + 65, [pressed, holder('b', { allowed: 25 })], []))).toEqual({});
  });

  it('is not asked to grow, nor to give, while it has not heard of its limit', () => {
    const pressed = holder('a', { allowed: 40, used: 20, wanted: 60, oldestMs: 1, heard: false });
    expect(limits(shareMemory(1000, [pressed], []))).toEqual({});
  });

  it('gets its share from one that holds more than that, though it is all in use', () => {
    const small = holder('a', { allowed: 10, used: 10, wanted: 30, oldestMs: 2 });
    const large = holder('b', { allowed: 90, used: 90, wanted: 95, oldestMs: 1 });
    expect(limits(shareMemory(300, [small, large], []))).toEqual({ b: 80 });
    const even = [holder('a', { ...small, allowed: 50, used: 50, wanted: 60 }), { ...large, allowed: 50 }];
    expect(limits(shareMemory(300, even, []))).toEqual({});
  });

  it('never has another model unloaded while it can run, but when it cannot', () => {
    const idle = holder('b', { unloadable: true });
    const running = holder('a', { allowed: 10, used: 10, wanted: 30, oldestMs: 1 });
    expect(shareMemory(220, [running, idle], [])).toMatchObject({ allow: [], unload: [] });
    const stuck = { ...running, used: 0, required: 11 };
    expect(shareMemory(220, [stuck, idle], [])).toMatchObject({ allow: [], unload: ['b'] });
  });

  it('takes everything from those with younger requests when it cannot run at all, never from older ones', () => {
    const stuck = holder('a', { allowed: 10, used: 0, wanted: 60, required: 11, oldestMs: 2 });
    const younger = holder('b', { allowed: 10, used: 10, oldestMs: 3 });
    const older = holder('c', { allowed: 10, used: 10, oldestMs: 1 });
    expect(limits(shareMemory(330, [stuck, younger, older], []))).toEqual({ b: 0 });
  });

  it('of two that came in the same millisecond, one takes from the other', () => {
    const stuck = { allowed: 10, used: 0, wanted: 15, required: 15, oldestMs: 2 };
    const [first, second] = [holder('a', stuck), holder('b', stuck)];
    expect(limits(shareMemory(220, [first, second], []))).toEqual({ b: 5 });
  });

  it('takes from an older one what that holds above its share, but not what its next sequence requires', () => {
    const younger = holder('a', { allowed: 10, used: 10, wanted: 30, oldestMs: 2 });
    const older = holder('b', { allowed: 90, used: 90, wanted: 95, required: 84, oldestMs: 1 });
    expect(limits(shareMemory(300, [younger, older], []))).toEqual({ b: 84 });
    expect(limits(shareMemory(300, [{ ...younger, oldestMs: 0 }, older], []))).toEqual({ b: 80 });
  });

  it('has busy models make way where it cannot run beside them', () => {
    const stuck = holder('a', { allowed: 100, used: 0, wanted: 150, required: 150, oldestMs: 2 });
    const busy = holder('b', { allowed: 0, used: 0, oldestMs: 1 });
    expect(shareMemory(300, [stuck, busy], [])).toMatchObject({ unload: [], closed: ['b'] });
    const idle = { ...busy, oldestMs: undefined, unloadable: true };
    expect(shareMemory(300, [stuck, idle], [])).toMatchObject({ unload: ['b'], closed: [] });
  });

  it('gives up its claim where all there is would not be enough, so that others can run', () => {
    const hopeless = holder('a', { allowed: 100, used: 0, wanted: 101, required: 101, oldestMs: 1 });
    const waiting = holder('b', { allowed: 0, used: 0, wanted: 20, required: 1, oldestMs: 2 });
    expect(limits(shareMemory(300, [hopeless, waiting], []))).toEqual({ a: 90 });
  });
});

describe('a load', () => {
  it('fits where memory is free, and has it put by for it', () => {
    const pressed = holder('a', { allowed: 40, used: 40, wanted: 41, oldestMs: 5 });
    const sharing = shareMemory(255, [pressed], [load('b', 1)]);
    expect(sharing).toMatchObject({ fitting: ['b'], waiting: [], unload: [] });
    expect(limits(sharing)).toEqual({ a: 45 });
  });

  it('takes unused blocks first, then idle models, then what busy ones hold above their share', () => {
    const unused = holder('a', { allowed: 150, used: 20, lastUsed: 2 });
    expect(shareMemory(250, [unused], [load('b')])).toMatchObject({
      allow: [{ name: 'a', blocks: 40 }],
      unload: [],
    });
    const idle = holder('c', { unloadable: true, lastUsed: 1 });
    expect(
      shareMemory(270, [holder('a', { allowed: 60, used: 60, oldestMs: 1 }), idle], [load('b')]),
    ).toMatchObject({
      allow: [],
      unload: ['c'],
    });
    const greedy = holder('a', { allowed: 200, used: 200, wanted: 300, oldestMs: 1 });
    expect(shareMemory(300, [greedy], [load('b')])).toMatchObject({
      allow: [{ name: 'a', blocks: 90 }],
      unload: [],
      waiting: [],
    });
  });

  it('disturbs nobody where there is no room whatever is done', () => {
    const busy = holder('a', { allowed: 150, used: 20, wanted: 20, oldestMs: 1, pinned: true });
    const idle = holder('c', { unloadable: true });
    const large = { ...load('b'), memory: memory({ weightBytes: 400 }) };
    expect(shareMemory(500, [busy, idle], [large])).toEqual({
      allow: [],
      unload: [],
      fitting: [],
      waiting: ['b'],
      closed: [],
      againMs: undefined,
    });
  });

  it('waits until a busy model has had its turn, then that takes no new requests', () => {
    const turn = { loadedMs: NOW - 2000, loadMs: 1000, use: 'awaited', awaitedMs: NOW } as const;
    const busy = holder('a', { used: 10, oldestMs: 1, turn });
    const nothing = { allow: [], unload: [], fitting: [], waiting: ['b'] };
    expect(shareMemory(150, [busy], [load('b')])).toEqual({ ...nothing, closed: [], againMs: NOW + 2000 });
    const later = holder('a', { ...busy, turn: { ...turn, loadedMs: NOW - 4000 } });
    expect(shareMemory(150, [later], [load('b')])).toEqual({
      ...nothing,
      closed: ['a'],
      againMs: undefined,
    });
  });

  it('closes as few as are needed, and none while another of them has still its turn', () => {
    const turn = (loadedMs: number) => ({ loadedMs, loadMs: 1000, use: 'awaited', awaitedMs: NOW }) as const;
    const holders = [
      holder('a', { used: 10, turn: turn(NOW - 5000) }),
      holder('b', { used: 10, turn: turn(NOW - 9000) }),
      holder('c', { used: 10, turn: turn(NOW - 1000) }),
    ];
    expect(shareMemory(330, holders, [load('d')]).closed).toEqual(['b']);
    const large = { ...load('d'), memory: memory({ weightBytes: 300 }) };
    expect(shareMemory(330, holders, [large])).toMatchObject({ closed: [], againMs: NOW + 3000 });
  });

  it('lets an idle model stay for as long as its own load took', () => {
    const idle = (loadedMs: number) =>
      holder('a', { unloadable: true, turn: { loadedMs, loadMs: 3000, use: 'idle', awaitedMs: 0 } });
    expect(shareMemory(150, [idle(NOW - 3000)], [load('b')])).toMatchObject({
      unload: ['a'],
      againMs: undefined,
    });
    expect(shareMemory(150, [idle(NOW - 2000)], [load('b')])).toMatchObject({
      unload: [],
      againMs: NOW + 1000,
    });
  });
});

interface Scene {
  readonly budget: number;
  readonly models: readonly ModelMemory[];
  readonly needs: readonly (SequenceNeed & { readonly model: number })[];
  readonly seed: number;
}

const scenes: fc.Arbitrary<Scene> = fc
  .record({
    sizes: fc.array(
      fc.record({ weight: fc.integer({ min: 1, max: 60 }), block: fc.integer({ min: 1, max: 7 }) }),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
    spareBlocks: fc.integer({ min: 0, max: 60 }),
    first: fc.integer({ min: 1, max: 8 }),
    wanted: fc.array(
      fc.record({
        model: fc.nat(3),
        sinceMs: fc.nat(1000),
        share: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      { minLength: 1, maxLength: 25 },
    ),
    seed: fc.integer(),
  })
  .map(({ sizes, spareBlocks, first, wanted, seed }) => {
    const weights = sizes.reduce((sum, { weight }) => sum + weight, 0);
    const largest = Math.max(...sizes.map(({ block }) => block));
    const kv = sizes.reduce((sum, { block }) => sum + first * block, 0) + spareBlocks * largest;
    const budget = weights + kv;
    const models = sizes.map(({ weight, block }) => ({
      kvType: 'f16' as const,
      weightBytes: weight,
      blockBytes: block,
      firstBlocks: first,
      blockCount: Math.floor((budget - weight) / block),
      fixed: false,
    }));
    const needs = wanted.map(({ model, sinceMs, share }, n) => {
      const at = model % models.length;
      const most = Math.floor(kv / (models[at] as ModelMemory).blockBytes);
      return { model: at, sinceMs: sinceMs + n / 100, blocks: 1 + Math.floor(share * (most - 1)) };
    });
    return { budget, models, needs, seed };
  });

/** Plays a scene to its end; throws where memory is overrun, gives what is left undone when nothing moves any more. */
function play({ budget, models, needs, seed }: Scene): number {
  let state = seed | 1;
  const chance = (share: number) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return ((state >>> 8) & 0xffff) / 0x10000 < share;
  };
  const ledger = new MemoryLedger(budget);
  const engines = models.map((one, at) => {
    if (!ledger.reserve(String(at), one)) throw new Error('the first blocks do not fit');
    return { user: new BlockUser(one.firstBlocks), told: [] as number[] };
  });
  for (const { model, ...need } of needs) engines[model]?.user.add(need);
  const check = () => {
    if (ledger.freeBytes < 0) throw new Error('the ledger is overrun');
    engines.forEach(({ user }, at) => {
      if (user.held > (ledger.holding(String(at))?.counted ?? 0))
        throw new Error('more is held than counted');
    });
  };
  for (let round = 0; round < 4000; round++) {
    if (engines.every(({ user }) => user.unfinished === 0)) return 0;
    engines.forEach(({ user, told }, at) => {
      const heard = chance(0.5) ? told.shift() : undefined;
      if (heard !== undefined) user.allow(heard);
      if (chance(0.7)) user.step();
      if (chance(0.7)) ledger.report(String(at), user.demand);
    });
    check();
    const holders = ledger.holdings().map(
      (holding, at): Holder => ({
        ...holding,
        state: 'loaded',
        unloadable: false,
        pinned: false,
        lastUsed: at,
        oldestMs: engines[at]?.user.oldestMs,
      }),
    );
    for (const { name, blocks } of shareMemory(budget, holders, []).allow) {
      ledger.allow(name, blocks);
      engines[Number(name)]?.told.push(blocks);
    }
    check();
  }
  return engines.reduce((sum, { user }) => sum + user.unfinished, 0);
}

describe('models that share a memory budget', () => {
  it('never overrun it, and every sequence that fits beside the weights of all comes to its end', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        expect(play(scene)).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});

describe('the ledger', () => {
  it('counts a smaller limit only when the engine has said that it holds no more', () => {
    const ledger = new MemoryLedger(300);
    expect(ledger.reserve('a', memory({ firstBlocks: 100 }))).toBe(true);
    expect(ledger.reserve('b', memory())).toBe(false);
    expect(ledger.freeBytes).toBe(100);
    ledger.report('a', { limit: 100, held: 0, used: 0, wanted: 0, short: false, required: 0 });
    ledger.allow('a', 40);
    expect(ledger.freeBytes).toBe(100);
    // What it said before it heard does not count.
    ledger.report('a', { limit: 100, held: 30, used: 30, wanted: 30, short: false, required: 0 });
    expect(ledger.freeBytes).toBe(100);
    ledger.report('a', { limit: 40, held: 70, used: 30, wanted: 30, short: false, required: 0 });
    expect(ledger.freeBytes).toBe(130);
    ledger.report('a', { limit: 40, held: 35, used: 30, wanted: 30, short: false, required: 0 });
    expect(ledger.freeBytes).toBe(160);
    expect(ledger.holdings().map(holdingBytes)).toEqual([140]);
    ledger.release('a');
    expect(ledger.freeBytes).toBe(300);
  });

  it('refuses to be overrun by a mistake', () => {
    const ledger = new MemoryLedger(120);
    ledger.reserve('a', memory());
    expect(() => ledger.allow('a', 20)).toThrow(/not heard/);
    ledger.report('a', { limit: 10, held: 0, used: 0, wanted: 0, short: false, required: 0 });
    expect(() => ledger.allow('a', 21)).toThrow(/not free/);
    expect(() => ledger.allow('a', 1001)).toThrow(/cannot be allowed/);
    expect(() => ledger.reserve('a', memory())).toThrow(/already/);
    ledger.allow('a', 20);
    expect(ledger.freeBytes).toBe(0);
  });
});
