import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { missingPostgres } from '../../../test/support/postgres.ts';
import { postgresHome } from '../../../test/support/store-homes.ts';
import { type Database, StoreError } from '../../store/database.ts';
import type { KeyLimits } from '../../store/key-record.ts';
import { LimitStore, type Settlement } from '../../store/limit-store.ts';
import { UsageStore } from '../../store/usage-store.ts';
import type { LimitResult, Permit, TokenDemand } from './key-limiter.ts';
import { Limiter } from './limiter.ts';
import { SharedLimiter, type SharedLimiterOptions } from './shared-limiter.ts';

const NOON_MS = Date.UTC(2026, 0, 31, 12);
const MINUTE_MS = 60_000;
const title = missingPostgres === undefined ? 'shared limits' : `shared limits (skipped: ${missingPostgres})`;

const exactly = (tokens: number): TokenDemand => ({ least: tokens, expected: tokens });

function permitOf(result: LimitResult): Permit {
  if (!result.ok) throw new Error(`was refused: ${result.kind}`);
  return result.permit;
}

describe.skipIf(missingPostgres !== undefined)(title, () => {
  const { home, server } = postgresHome();
  const limiters: SharedLimiter[] = [];
  afterEach(async () => {
    for (const limiter of limiters.splice(0)) await limiter.close();
  });

  /** What its gateway does, and what it has sent to be settled. */
  interface Gateway {
    readonly limiter: SharedLimiter;
    readonly store: LimitStore;
    readonly settled: () => Promise<unknown>;
  }

  async function open(
    database: Database,
    clock?: () => number,
    options: Partial<SharedLimiterOptions> = {},
  ): Promise<Gateway> {
    const store = new LimitStore(database, randomUUID(), { clock, answerMs: 60_000 });
    const settling: Promise<void>[] = [];
    const calls = {
      admit: store.admit.bind(store),
      look: store.look.bind(store),
      weigh: store.weigh.bind(store),
      grow: store.grow.bind(store),
      beat: store.beat.bind(store),
      leave: store.leave.bind(store),
      settle: (settlement: Settlement) => {
        const sent = store.settle(settlement);
        settling.push(sent);
        return sent;
      },
    };
    const onChange = (lost: unknown) => expect.fail(String(lost));
    const limiter = await SharedLimiter.open(calls, { onChange, ...options });
    limiters.push(limiter);
    return { limiter, store, settled: () => Promise.all(settling.splice(0)) };
  }

  it('answer as the limiter in memory does, whatever happens', async () => {
    let nowMs = NOON_MS;
    let run = 0;
    const { limiter, store, settled } = await open(await home.open(), () => nowMs);
    const limit = (max: number) => fc.option(fc.integer({ min: 1, max }), { nil: undefined });
    const limits: fc.Arbitrary<KeyLimits> = fc.record({
      requestsPerMinute: limit(20),
      tokensPerMinute: limit(3000),
      maxConcurrent: limit(4),
      dailyTokens: limit(9000),
    });
    const step = fc.record({
      // A clock may be set back, too.
      elapsedMs: fc.oneof(
        fc.constant(0),
        fc.nat(5000),
        fc.nat(10 * 3_600_000),
        fc.integer({ min: -9000, max: 0 }),
      ),
      least: fc.nat(100),
      expected: fc.nat(2000),
      used: fc.nat(2500),
      ending: fc.nat(3),
      growing: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(limits, fc.array(step, { minLength: 1, maxLength: 15 }), async (key, steps) => {
        const alone = new Limiter();
        const keyId = `key ${run++}`;
        const running: { readonly permit: Permit; readonly twin: Permit; readonly used: number }[] = [];
        for (const { elapsedMs, least, expected: most, used, ending, growing } of steps) {
          const demand = { least: Math.min(least, most), expected: most };
          nowMs += elapsedMs;
          await store.beat();
          for (const { permit, twin, used } of running.splice(0, ending)) {
            permit.settle(used, nowMs);
            twin.settle(used, nowMs);
            // One by one: in another order it may come to something else.
            await settled();
          }
          const [first] = running;
          if (growing && first !== undefined) {
            expect(await first.permit.grow(256, nowMs)).toBe(first.twin.grow(256, nowMs));
          }
          const [result, expected] = [
            await limiter.admit(keyId, key, nowMs, demand),
            alone.admit(keyId, key, nowMs, demand),
          ];
          expect({ ...result, permit: {} }).toEqual({ ...expected, permit: {} });
          expect(await limiter.remaining(keyId, key, nowMs)).toEqual(alone.remaining(keyId, key, nowMs));
          if (!result.ok || !expected.ok) continue;
          const { permit } = result;
          const { permit: twin } = expected;
          const hasTokens = (key.tokensPerMinute ?? key.maxConcurrent ?? key.dailyTokens) !== undefined;
          const weighed = await permit.weigh(demand, nowMs);
          const twinWeighed = twin.weigh(demand, nowMs);
          expect(weighed).toEqual(hasTokens ? twinWeighed : { ...twinWeighed, headers: expected.headers });
          if (weighed.ok) running.push({ permit, twin, used });
        }
      }),
      { numRuns: 60 },
    );
  });

  it.each<KeyLimits>([
    { requestsPerMinute: 300 },
    { tokensPerMinute: 6000 },
    { requestsPerMinute: 300, tokensPerMinute: 9000, maxConcurrent: 6, dailyTokens: 1_000_000 },
    { dailyTokens: 20_000 },
  ])('%j are one for two gateways that ask at once', async (limits) => {
    let nowMs = NOON_MS;
    const minutes = 1;
    const gateways = [await open(await home.open(), () => nowMs), await open(await home.open(), () => nowMs)];
    let requests = 0;
    let tokens = 0;
    let atOnce = 0;
    let mostAtOnce = 0;
    const used = 40;
    const ask = async ({ limiter }: Gateway) => {
      const result = await limiter.admit('a', limits, nowMs);
      if (!result.ok) return;
      requests++;
      const weighed = await result.permit.weigh(exactly(2 * used), nowMs);
      if (!weighed.ok) return;
      atOnce++;
      mostAtOnce = Math.max(mostAtOnce, atOnce);
      tokens += used;
      // Settled after others had their turn, so that places are held at the same time.
      await new Promise(setImmediate);
      atOnce--;
      result.permit.settle(used, nowMs);
    };
    for (; nowMs <= NOON_MS + minutes * MINUTE_MS; nowMs += 1000) {
      await Promise.all(gateways.map(({ store }) => store.beat()));
      for (let turn = 0; turn < 3; turn++) {
        await Promise.all([...gateways, ...gateways, ...gateways].map(ask));
        await Promise.all(gateways.map(({ settled }) => settled()));
      }
    }
    const { requestsPerMinute, tokensPerMinute, dailyTokens, maxConcurrent } = limits;
    // A rested key may spend a minute's worth at once.
    const shares = [
      requestsPerMinute === undefined ? [] : requests / (requestsPerMinute * (1 + minutes)),
      tokensPerMinute === undefined ? [] : tokens / (tokensPerMinute * (1 + minutes)),
      dailyTokens === undefined ? [] : tokens / dailyTokens,
    ].flat();
    for (const share of shares) expect(share).toBeLessThanOrEqual(1.02);
    expect(Math.max(...shares)).toBeGreaterThanOrEqual(0.98);
    expect(mostAtOnce).toBeLessThanOrEqual(maxConcurrent ?? Number.POSITIVE_INFINITY);
  });

  it('give the places of a gateway that died back, and those of one that left at once', async () => {
    let nowMs = NOON_MS;
    const limits = { maxConcurrent: 2 };
    const dead = await open(await home.open(), () => nowMs);
    const living = await open(await home.open(), () => nowMs);
    permitOf(await dead.limiter.admit('a', limits, nowMs));
    permitOf(await dead.limiter.admit('a', limits, nowMs));
    expect(await living.limiter.admit('a', limits, nowMs)).toMatchObject({ ok: false, kind: 'concurrent' });
    nowMs += 14_000;
    await living.store.beat();
    expect(await living.limiter.admit('a', limits, nowMs)).toMatchObject({ ok: false, kind: 'concurrent' });
    nowMs += 1001;
    expect(await living.limiter.admit('a', limits, nowMs)).toMatchObject({ ok: true });
    // It was only asleep.
    await dead.store.beat();
    permitOf(await dead.limiter.admit('a', { maxConcurrent: 4 }, nowMs));
    await dead.store.leave();
    expect(await living.limiter.admit('a', limits, nowMs)).toMatchObject({ ok: true });
  });

  it('go on from the usage of the day, and know what was used while the database was away', async () => {
    const database = await home.open();
    const usage = new UsageStore(database, (error) => expect.fail(String(error)));
    const use = async (promptTokens: number) => {
      usage.record('a', { promptTokens, cachedTokens: 0, completionTokens: 0, failed: false }, NOON_MS);
      await usage.flush();
    };
    await use(60);
    const { limiter, settled } = await open(database, () => NOON_MS);
    const limits = { dailyTokens: 100 };
    const remaining = async () => {
      const { headers } = await limiter.admit('a', limits, NOON_MS, exactly(0));
      return headers['x-ratelimit-remaining-daily-tokens'];
    };
    expect(await remaining()).toBe('40');
    const permit = permitOf(await limiter.admit('a', limits, NOON_MS));
    await permit.weigh(exactly(30), NOON_MS);
    expect(await remaining()).toBe('10');
    permit.settle(10, NOON_MS);
    await settled();
    expect(await remaining()).toBe('30');
    // Written a second later, and counted once.
    await use(10);
    expect(await remaining()).toBe('30');
    await use(5);
    expect(await remaining()).toBe('25');
  });

  it('begin a day with what those before have used beyond it, also where only the usage knows of it', async () => {
    const database = await home.open();
    const usage = new UsageStore(database, (error) => expect.fail(String(error)));
    const limits = { dailyTokens: 100 };
    for (const [days, promptTokens] of [
      [3, 280],
      [1, 150],
    ] as const) {
      const spent = { promptTokens, cachedTokens: 0, completionTokens: 0, failed: false };
      usage.record('a', spent, NOON_MS - days * 24 * 60 * MINUTE_MS);
    }
    await usage.flush();
    // 180 of the first day, 80 after the next, 130 after the last.
    const { limiter } = await open(database, () => NOON_MS);
    expect(await limiter.admit('a', limits, NOON_MS)).toMatchObject({
      ok: false,
      numbers: { limit: 100, used: 130, left: 0, asked: 1 },
      retryAfterMs: 12 * 60 * MINUTE_MS,
    });
  });

  it('cost a key without limits nothing', async () => {
    const { limiter, store } = await open(await home.open());
    const admit = vi.spyOn(store, 'admit');
    const result = await limiter.admit('a', {}, NOON_MS, exactly(1_000_000));
    expect(result).toMatchObject({ ok: true, headers: {} });
    expect(await permitOf(result).weigh(exactly(1_000_000), NOON_MS)).toMatchObject({ ok: true });
    permitOf(result).settle(1, NOON_MS);
    expect(admit).not.toHaveBeenCalled();
  });

  it('settle once, however often the database is called', async () => {
    const database = await home.open();
    const { limiter, store, settled } = await open(database, () => NOON_MS);
    const limits = { tokensPerMinute: 600 };
    const permit = permitOf(await limiter.admit('a', limits, NOON_MS));
    await permit.weigh(exactly(100), NOON_MS);
    const [row] = await server().execute(home.location(), 'select id from running_request');
    permit.settle(300, NOON_MS);
    await settled();
    const settlement = { keyId: 'a', limits, requestId: String(row?.id), usedTokens: 300, served: true };
    await store.settle(settlement);
    permit.settle(300, NOON_MS);
    const { headers } = await limiter.admit('a', limits, NOON_MS);
    expect(headers).toMatchObject({ 'x-ratelimit-remaining-tokens': '300' });
  });

  it('take the time of the database where no other is given', async () => {
    const { limiter } = await open(await home.open());
    const limits = { requestsPerMinute: 1, dailyTokens: 10 };
    const { headers } = await limiter.admit('a', limits, NOON_MS);
    expect(headers).toMatchObject({ 'x-ratelimit-remaining-requests': '0' });
    // Sixty seconds at most from the admission: the database's day and minute, not ours.
    const refusal = await limiter.admit('a', limits, NOON_MS + MINUTE_MS);
    expect(refusal).toMatchObject({ ok: false, kind: 'requests' });
  });

  /** So many gateways say that they live. */
  async function beatOthers(database: Database, count: number): Promise<void> {
    for (let i = 0; i < count; i++) await new LimitStore(database, randomUUID()).beat();
  }

  describe('while the database is away', () => {
    const limits = { requestsPerMinute: 9, maxConcurrent: 6, dailyTokens: 1000 };

    it('are shared out, and what was held is given back when it is there again', async () => {
      const onChange = vi.fn();
      const database = await home.open();
      await beatOthers(database, 2);
      const { limiter } = await open(database, undefined, { onChange });
      const weighed = permitOf(await limiter.admit('a', limits, Date.now()));
      const early = permitOf(await limiter.admit('a', limits, Date.now()));
      await weighed.weigh(exactly(100), Date.now());
      await server().halt();
      // A third of nine, less a third of the two that were used before: the early one, which was not weighed yet, and another.
      expect(await early.weigh(exactly(100), Date.now())).toMatchObject({ ok: true });
      const late = permitOf(await limiter.admit('a', { requestsPerMinute: 9 }, Date.now()));
      expect(await limiter.admit('a', { requestsPerMinute: 9 }, Date.now())).toMatchObject({
        ok: false,
        kind: 'requests',
      });
      expect(onChange).toHaveBeenCalledTimes(1);
      expect(onChange.mock.lastCall?.[0]).toBeInstanceOf(StoreError);
      for (const permit of [weighed, early, late]) permit.settle(50, Date.now());
      await server().go();
      await vi.waitUntil(() => onChange.mock.lastCall?.[0] === undefined, { timeout: 60_000 });
      expect(onChange).toHaveBeenCalledTimes(2);
      const running = () => server().execute(home.location(), 'select * from running_request');
      await vi.waitUntil(async () => (await running()).length === 0, { timeout: 60_000 });
    });

    it('know how much of its day a key has used, and leave each gateway its share of the rest', async () => {
      const onChange = vi.fn();
      const database = await home.open();
      await beatOthers(database, 1);
      const { limiter, settled } = await open(database, undefined, { onChange });
      const daily = { dailyTokens: 1000 };
      const permit = permitOf(await limiter.admit('a', daily, Date.now()));
      await permit.weigh(exactly(400), Date.now());
      permit.settle(400, Date.now());
      await settled();
      permitOf(await limiter.admit('a', daily, Date.now())).settle(0, Date.now());
      await settled();
      await server().halt();
      const next = permitOf(await limiter.admit('a', daily, Date.now()));
      expect(await next.weigh(exactly(300), Date.now())).toMatchObject({
        ok: true,
        headers: { 'x-ratelimit-remaining-daily-tokens': '0' },
      });
      await server().go();
      await vi.waitUntil(() => onChange.mock.lastCall?.[0] === undefined, { timeout: 60_000 });
    });
  });
});
