import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KeyLimits } from '../../store/key-record.ts';
import type { TokenDemand } from './key-limiter.ts';
import { type HeldPermit, type HeldResult, Limiter } from './limiter.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const NOON_MS = Date.UTC(2026, 0, 31, 12);
const MIDNIGHT_MS = Date.UTC(2026, 1, 1);

/** All of it is needed. */
const exactly = (tokens: number): TokenDemand => ({ least: tokens, expected: tokens });

/** Admitted and weighed in one go. */
function admit(
  limiter: Limiter,
  keyId: string,
  limits: KeyLimits,
  tokens: number,
  nowMs: number,
): HeldResult {
  const result = limiter.admit(keyId, limits, nowMs, exactly(tokens));
  if (!result.ok) return result;
  const weighed = result.permit.weigh(exactly(tokens), nowMs);
  return weighed.ok ? result : weighed;
}

function refused(admission: HeldResult) {
  if (admission.ok) throw new Error('was admitted');
  return admission;
}

function permitOf(admission: HeldResult): HeldPermit {
  if (!admission.ok) throw new Error(`was refused: ${admission.kind}`);
  return admission.permit;
}

describe('requests per minute', () => {
  const limits = { requestsPerMinute: 6 };

  it('admits a minute’s worth at once, then one each tenth of a minute', () => {
    const limiter = new Limiter();
    for (let count = 0; count < 6; count++) expect(admit(limiter, 'a', limits, 0, NOON_MS).ok).toBe(true);
    expect(refused(admit(limiter, 'a', limits, 0, NOON_MS))).toMatchObject({
      kind: 'requests',
      retryAfterMs: 10_000,
    });
    expect(admit(limiter, 'a', limits, 0, NOON_MS + 9_999).ok).toBe(false);
    expect(admit(limiter, 'a', limits, 0, NOON_MS + 10_000).ok).toBe(true);
    expect(refused(admit(limiter, 'a', limits, 0, NOON_MS + 10_000)).retryAfterMs).toBe(10_000);
  });

  it('counts every key by itself', () => {
    const limiter = new Limiter();
    expect(admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS).ok).toBe(true);
    expect(admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS).ok).toBe(false);
    expect(admit(limiter, 'b', { requestsPerMinute: 1 }, 0, NOON_MS).ok).toBe(true);
  });

  it('takes a changed limit up with the next request', () => {
    const limiter = new Limiter();
    for (let count = 0; count < 6; count++) admit(limiter, 'a', limits, 0, NOON_MS);
    expect(admit(limiter, 'a', { requestsPerMinute: 7 }, 0, NOON_MS).ok).toBe(true);
    expect(refused(admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS)).retryAfterMs).toBe(7 * 60_000);
    expect(admit(limiter, 'a', {}, 0, NOON_MS).ok).toBe(true);
  });

  it('does not lock a key out where the clock is set back', () => {
    const limiter = new Limiter();
    admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS);
    expect(refused(admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS - DAY_MS)).retryAfterMs).toBe(
      60_000,
    );
    expect(admit(limiter, 'a', { requestsPerMinute: 1 }, 0, NOON_MS - DAY_MS + 60_000).ok).toBe(true);
  });
});

describe('tokens per minute', () => {
  const limits = { tokensPerMinute: 600 };

  it('holds the estimate while a request runs and gives back what it did not use', () => {
    const limiter = new Limiter();
    const permit = permitOf(admit(limiter, 'a', limits, 600, NOON_MS));
    expect(refused(admit(limiter, 'a', limits, 100, NOON_MS))).toMatchObject({
      kind: 'tokens',
      retryAfterMs: 10_000,
    });
    permit.settle(500, NOON_MS);
    expect(admit(limiter, 'a', limits, 100, NOON_MS).ok).toBe(true);
    expect(admit(limiter, 'a', limits, 1, NOON_MS).ok).toBe(false);
  });

  it('charges what a request used beyond its estimate', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 100, NOON_MS)).settle(900, NOON_MS);
    // 300 over the limit, and 10 more, at 10 a second.
    expect(refused(admit(limiter, 'a', limits, 10, NOON_MS)).retryAfterMs).toBe(31_000);
  });

  it('refuse for ever what needs more than the whole limit, with the numbers', () => {
    const limiter = new Limiter();
    expect(refused(admit(limiter, 'a', limits, 601, NOON_MS))).toMatchObject({
      kind: 'tokens',
      retryAfterMs: Number.POSITIVE_INFINITY,
      numbers: { limit: 600, used: 0, left: 600, asked: 601 },
    });
    expect(limiter.admit('a', limits, NOON_MS, exactly(601)).headers).not.toHaveProperty('retry-after');
    expect(admit(limiter, 'a', limits, 600, NOON_MS).ok).toBe(true);
  });

  it('hold no more than the whole limit of what may be more', () => {
    const limiter = new Limiter();
    const demand = { least: 10, expected: 9000 };
    const permit = permitOf(limiter.admit('a', limits, NOON_MS, demand));
    expect(permit.weigh(demand, NOON_MS)).toMatchObject({ ok: true, heldTokens: 600 });
    expect(permit.grow(256, NOON_MS)).toBe(0);
    expect(permit.grow(256, NOON_MS + 1000)).toBe(10);
    // It waits until it can have as much as it ever can.
    expect(refused(limiter.admit('a', limits, NOON_MS + 1000, demand)).retryAfterMs).toBe(60_000);
  });

  it('give no minute twice: what a hold took has drained, though it was not used', () => {
    const limiter = new Limiter();
    const permits = Array.from({ length: 10 }, (_, minute) =>
      permitOf(admit(limiter, 'a', limits, 600, NOON_MS + minute * 60_000)),
    );
    const nowMs = NOON_MS + 10 * 60_000;
    permitOf(admit(limiter, 'a', limits, 600, nowMs));
    for (const permit of permits) permit.settle(0, nowMs);
    expect(refused(admit(limiter, 'a', limits, 600, nowMs)).retryAfterMs).toBe(60_000);
  });

  it('give back what has not drained, whichever request came before or after', () => {
    const limiter = new Limiter();
    const early = permitOf(admit(limiter, 'a', limits, 300, NOON_MS));
    const late = permitOf(admit(limiter, 'a', limits, 300, NOON_MS));
    const left = (nowMs: number) => limiter.headers('a', limits, nowMs)['x-ratelimit-remaining-tokens'];
    // 100 of the first 300 have drained, of which 50 were used.
    early.settle(50, NOON_MS + 10_000);
    expect(left(NOON_MS + 10_000)).toBe('300');
    // Then 200 of the others.
    late.settle(150, NOON_MS + 30_000);
    expect(left(NOON_MS + 30_000)).toBe('600');
    permitOf(admit(limiter, 'a', limits, 600, NOON_MS + 30_000));
    expect(left(NOON_MS + 30_000)).toBe('0');
  });

  it('settles once', () => {
    const limiter = new Limiter();
    const permit = permitOf(admit(limiter, 'a', { ...limits, maxConcurrent: 2 }, 600, NOON_MS));
    permitOf(admit(limiter, 'a', { maxConcurrent: 2 }, 0, NOON_MS));
    permit.settle(600, NOON_MS);
    permit.settle(0, NOON_MS);
    expect(admit(limiter, 'a', limits, 1, NOON_MS).ok).toBe(false);
    expect(admit(limiter, 'a', { maxConcurrent: 2 }, 0, NOON_MS).ok).toBe(true);
    expect(admit(limiter, 'a', { maxConcurrent: 2 }, 0, NOON_MS).ok).toBe(false);
  });
});

describe('a request whose length is not known yet', () => {
  it('needs a token that is left, and holds none until it is weighed', () => {
    const limiter = new Limiter();
    const limits = { tokensPerMinute: 600, dailyTokens: 1000 };
    const first = permitOf(limiter.admit('a', limits, NOON_MS));
    expect(limiter.headers('a', limits, NOON_MS)).toMatchObject({
      'x-ratelimit-remaining-tokens': '600',
      'x-ratelimit-remaining-daily-tokens': '1000',
    });
    expect(first.weigh(exactly(600), NOON_MS)).toMatchObject({ ok: true });
    expect(refused(limiter.admit('a', limits, NOON_MS))).toMatchObject({ kind: 'tokens', retryAfterMs: 100 });
  });

  it('gives its place back where it weighs too much, but has counted as a request', () => {
    const limiter = new Limiter();
    const limits = { requestsPerMinute: 2, tokensPerMinute: 600, maxConcurrent: 1 };
    permitOf(limiter.admit('a', limits, NOON_MS)).settle(500, NOON_MS);
    const permit = permitOf(limiter.admit('a', limits, NOON_MS));
    // The tokens would fit after 10 s; the next request is free after 30 s.
    expect(permit.weigh(exactly(200), NOON_MS)).toMatchObject({ kind: 'requests', retryAfterMs: 30_000 });
    permit.settle(9999, NOON_MS);
    expect(limiter.headers('a', limits, NOON_MS)).toMatchObject({
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-remaining-tokens': '100',
    });
    const again = permitOf(limiter.admit('a', limits, NOON_MS + 30_000));
    expect(again.weigh(exactly(200), NOON_MS + 30_000)).toMatchObject({ ok: true });
  });

  it('does not teach how long requests take where it was refused', () => {
    const limiter = new Limiter();
    const limits = { tokensPerMinute: 600, maxConcurrent: 1 };
    permitOf(limiter.admit('a', limits, NOON_MS)).settle(590, NOON_MS + 8000);
    const atMs = NOON_MS + 8000;
    expect(permitOf(limiter.admit('a', limits, atMs)).weigh(exactly(600), atMs)).toMatchObject({ ok: false });
    permitOf(limiter.admit('a', limits, atMs));
    expect(refused(limiter.admit('a', limits, atMs)).retryAfterMs).toBe(8000);
  });
});

describe('requests at once', () => {
  it('are refused above the limit until one ends', () => {
    const limiter = new Limiter();
    const first = permitOf(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS));
    expect(refused(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS))).toMatchObject({
      kind: 'concurrent',
      retryAfterMs: 1000,
    });
    first.settle(0, NOON_MS + 5);
    expect(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS + 5).ok).toBe(true);
  });

  it('are to come back when the oldest should end, going by those before it', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS)).settle(0, NOON_MS + 8000);
    permitOf(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS + 10_000));
    const wait = (elapsedMs: number) =>
      refused(admit(limiter, 'a', { maxConcurrent: 1 }, 0, NOON_MS + 10_000 + elapsedMs)).retryAfterMs;
    expect([wait(0), wait(3000), wait(60_000)]).toEqual([8000, 5000, 1000]);
  });
});

describe('tokens a day', () => {
  const limits = { dailyTokens: 100 };

  it('come back at midnight in UTC', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 60, NOON_MS)).settle(60, NOON_MS);
    expect(refused(admit(limiter, 'a', limits, 41, NOON_MS))).toMatchObject({
      kind: 'daily',
      retryAfterMs: 12 * 60 * 60 * 1000,
    });
    expect(admit(limiter, 'a', limits, 41, MIDNIGHT_MS - 1).ok).toBe(false);
    expect(admit(limiter, 'a', limits, 41, MIDNIGHT_MS).ok).toBe(true);
  });

  it('count on the day the request ends, as usage does', () => {
    const limiter = new Limiter();
    const permit = permitOf(admit(limiter, 'a', limits, 60, MIDNIGHT_MS - 1));
    expect(admit(limiter, 'a', limits, 41, MIDNIGHT_MS).ok).toBe(false);
    permit.settle(50, MIDNIGHT_MS + 1);
    expect(limiter.headers('a', limits, MIDNIGHT_MS + 1)).toMatchObject({
      'x-ratelimit-remaining-daily-tokens': '50',
    });
  });

  it('ask for a short wait where only running requests are in the way', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 100, NOON_MS));
    expect(refused(admit(limiter, 'a', limits, 1, NOON_MS))).toMatchObject({
      kind: 'daily',
      retryAfterMs: 1000,
    });
  });

  it('are all there are: what is left is held, and nothing more', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 60, NOON_MS)).settle(60, NOON_MS);
    const demand = { least: 10, expected: 9000 };
    const permit = permitOf(limiter.admit('a', limits, NOON_MS, demand));
    expect(permit.weigh(demand, NOON_MS)).toMatchObject({ ok: true, heldTokens: 40, mostTokens: 40 });
    expect(permit.grow(256, NOON_MS)).toBe(0);
    permit.settle(40, NOON_MS);
    expect(refused(limiter.admit('a', limits, NOON_MS, demand))).toMatchObject({
      kind: 'daily',
      numbers: { limit: 100, used: 100, left: 0, asked: 10 },
    });
  });

  it('are held as an answer grows, and all it did not use are given back', () => {
    const limiter = new Limiter();
    const permit = permitOf(limiter.admit('a', limits, NOON_MS));
    expect(permit.weigh(exactly(10), NOON_MS)).toMatchObject({ heldTokens: 10, mostTokens: 100 });
    const other = permitOf(admit(limiter, 'a', limits, 30, NOON_MS));
    expect(permit.grow(50, NOON_MS)).toBe(50);
    expect(permit.grow(50, NOON_MS)).toBe(10);
    other.settle(0, NOON_MS);
    expect(permit.grow(50, NOON_MS)).toBe(30);
    permit.settle(71, NOON_MS);
    expect(limiter.headers('a', limits, NOON_MS)['x-ratelimit-remaining-daily-tokens']).toBe('29');
  });

  it('of a day that was overdrawn are carried over to the next, and those after it', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 10, NOON_MS)).settle(250, NOON_MS);
    expect(refused(admit(limiter, 'a', limits, 1, NOON_MS)).retryAfterMs).toBe(
      MIDNIGHT_MS + DAY_MS - NOON_MS,
    );
    const { numbers } = refused(admit(limiter, 'a', limits, 1, MIDNIGHT_MS));
    expect(numbers).toMatchObject({ limit: 100, used: 150, left: 0 });
    expect(admit(limiter, 'a', limits, 51, MIDNIGHT_MS + DAY_MS).ok).toBe(false);
    expect(admit(limiter, 'a', limits, 50, MIDNIGHT_MS + DAY_MS).ok).toBe(true);
  });

  it('of a clock that goes back to yesterday and comes again are not new', () => {
    const limiter = new Limiter();
    permitOf(admit(limiter, 'a', limits, 100, MIDNIGHT_MS)).settle(100, MIDNIGHT_MS);
    expect(admit(limiter, 'a', limits, 1, MIDNIGHT_MS - 1).ok).toBe(false);
  });

  it('go on from what was used before a restart', () => {
    const limiter = new Limiter();
    limiter.restoreDailyTokens(new Map([['a', 95]]), NOON_MS);
    expect(admit(limiter, 'a', limits, 6, NOON_MS).ok).toBe(false);
    expect(admit(limiter, 'b', limits, 6, NOON_MS).ok).toBe(true);
    expect(admit(limiter, 'a', limits, 5, NOON_MS).ok).toBe(true);
    expect(admit(limiter, 'a', limits, 5, MIDNIGHT_MS).ok).toBe(true);
  });
});

describe('headers', () => {
  it('name each limit, what is left of it and when it is whole again', () => {
    const limiter = new Limiter();
    const limits = { requestsPerMinute: 60, tokensPerMinute: 1000, dailyTokens: 5000, maxConcurrent: 3 };
    const admitted = limiter.admit('a', limits, NOON_MS);
    expect(admitted.headers).toEqual(limiter.headers('a', limits, NOON_MS));
    permitOf(admitted).weigh(exactly(250), NOON_MS);
    expect(limiter.headers('a', limits, NOON_MS)).toEqual({
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '750',
      'x-ratelimit-reset-tokens': '15s',
      'x-ratelimit-limit-daily-tokens': '5000',
      'x-ratelimit-remaining-daily-tokens': '4750',
      'x-ratelimit-reset-daily-tokens': '12h0m0s',
    });
  });

  it('are absent for limits a key has not', () => {
    expect(admit(new Limiter(), 'a', {}, 5, NOON_MS).headers).toEqual({});
  });

  it('of a refusal say when to come back, rounded up to whole seconds', () => {
    const limiter = new Limiter();
    admit(limiter, 'a', { requestsPerMinute: 7 }, 0, NOON_MS);
    for (let count = 0; count < 6; count++) admit(limiter, 'a', { requestsPerMinute: 7 }, 0, NOON_MS);
    expect(admit(limiter, 'a', { requestsPerMinute: 7 }, 0, NOON_MS).headers).toMatchObject({
      'retry-after': '9',
      'retry-after-ms': '8572',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1m0s',
    });
  });
});

interface Step {
  readonly elapsedMs: number;
  readonly estimate: number;
  /** How much of the estimate is used in the end. */
  readonly share: number;
  /** How many of the running requests end before this one comes. */
  readonly ending: number;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    elapsedMs: fc.oneof(fc.constant(0), fc.nat(5000), fc.nat(10 * 60 * 60 * 1000)),
    estimate: fc.nat(2000),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    ending: fc.nat(3),
  }),
  { minLength: 1, maxLength: 80 },
);

const limitsUpTo = (tokens: number): fc.Arbitrary<KeyLimits> =>
  fc.record(
    {
      requestsPerMinute: fc.integer({ min: 1, max: 90 }),
      tokensPerMinute: fc.integer({ min: 1, max: tokens }),
      maxConcurrent: fc.integer({ min: 1, max: 5 }),
      dailyTokens: fc.integer({ min: 1, max: 10 * tokens }),
    },
    { requiredKeys: [] },
  );

interface Running extends Step {
  readonly permit: HeldPermit;
}

/** Plays the steps and keeps a book of its own. */
class Play {
  readonly limiter = new Limiter();
  readonly running: Running[] = [];
  readonly usedByDay = new Map<number, number>();
  nowMs = NOON_MS;
  admitted = 0;
  used = 0;
  mostAtOnce = 0;

  constructor(limits: KeyLimits, actions: readonly Step[]) {
    for (const action of actions) {
      this.nowMs += action.elapsedMs;
      for (const ended of this.running.splice(0, action.ending)) this.end(ended);
      const admission = admit(this.limiter, 'a', limits, action.estimate, this.nowMs);
      if (!admission.ok) continue;
      this.admitted++;
      this.running.push({ ...action, permit: admission.permit });
      this.mostAtOnce = Math.max(this.mostAtOnce, this.running.length);
    }
  }

  endAll(): void {
    for (const ended of this.running.splice(0)) this.end(ended);
  }

  private end({ permit, estimate, share }: Running): void {
    const used = Math.floor(estimate * share);
    const day = Math.floor(this.nowMs / DAY_MS);
    permit.settle(used, this.nowMs);
    this.used += used;
    this.usedByDay.set(day, (this.usedByDay.get(day) ?? 0) + used);
  }
}

/** Admits the same request until it is refused, then waits as long as it says. */
function checkRetryAfter({ limiter, nowMs }: Play, limits: KeyLimits, estimate: number): void {
  const attemptAfter = (waitMs: number) => admit(limiter, 'a', limits, estimate, nowMs + waitMs);
  for (let attempt = 0; attempt < 100; attempt++) {
    const admission = attemptAfter(0);
    if (admission.ok) {
      admission.permit.settle(estimate, nowMs);
      continue;
    }
    const { retryAfterMs, headers } = admission;
    if (retryAfterMs === Number.POSITIVE_INFINITY) {
      const { tokensPerMinute = estimate, dailyTokens = estimate } = limits;
      expect(estimate).toBeGreaterThan(Math.min(tokensPerMinute, dailyTokens));
      return;
    }
    expect(attemptAfter(retryAfterMs - 1).ok).toBe(false);
    expect(1000 * Number(headers['retry-after'])).toBeGreaterThanOrEqual(retryAfterMs);
    expect(attemptAfter(retryAfterMs).ok).toBe(true);
    return;
  }
}

describe('whatever happens', () => {
  const runs = { numRuns: 300 };
  const UNLIMITED = 1e12;

  it('a refused request is admitted after retryAfterMs, and not a millisecond before', () => {
    fc.assert(
      fc.property(limitsUpTo(9000), steps, fc.nat(3000), (limits, actions, estimate) => {
        const play = new Play(limits, actions);
        play.endAll();
        checkRetryAfter(play, limits, estimate);
      }),
      runs,
    );
  });

  it('so it is where the length was not known at first', () => {
    fc.assert(
      fc.property(limitsUpTo(9000), steps, fc.nat(3000), (limits, actions, estimate) => {
        const attempt = (waitMs: number) => {
          const play = new Play(limits, actions);
          play.endAll();
          const result = play.limiter.admit('a', limits, play.nowMs);
          const refusal = result.ok ? result.permit.weigh(exactly(estimate), play.nowMs) : undefined;
          if (refusal === undefined || refusal.ok || !Number.isFinite(refusal.retryAfterMs)) return undefined;
          const again = admit(
            play.limiter,
            'a',
            limits,
            estimate,
            play.nowMs + refusal.retryAfterMs + waitMs,
          );
          return again.ok;
        };
        const exact = attempt(0);
        if (exact === undefined) return;
        expect(exact).toBe(true);
        expect(attempt(-1)).toBe(false);
      }),
      runs,
    );
  });

  it('so it is with requests running, for limits by the minute', () => {
    fc.assert(
      fc.property(limitsUpTo(9000), steps, fc.nat(3000), (limits, actions, estimate) => {
        const { requestsPerMinute, tokensPerMinute } = limits;
        const byMinute = { requestsPerMinute, tokensPerMinute };
        checkRetryAfter(new Play(byMinute, actions), byMinute, estimate);
      }),
      runs,
    );
  });

  it('no key gets more than one limit’s worth beyond its steady rate', () => {
    fc.assert(
      fc.property(limitsUpTo(9000), steps, (limits, actions) => {
        const { requestsPerMinute = UNLIMITED, tokensPerMinute = UNLIMITED } = limits;
        const play = new Play(limits, actions);
        play.endAll();
        const minutes = (play.nowMs - NOON_MS) / 60_000;
        expect(play.admitted).toBeLessThanOrEqual(requestsPerMinute * (1 + minutes) + 1e-6);
        expect(play.used).toBeLessThanOrEqual(tokensPerMinute * (1 + minutes) + 1e-6);
      }),
      runs,
    );
  });

  it('no key runs more at once or uses more in a day than it may', () => {
    fc.assert(
      fc.property(limitsUpTo(9000), steps, (limits, actions) => {
        const { maxConcurrent = UNLIMITED, dailyTokens = UNLIMITED } = limits;
        const play = new Play(limits, actions);
        play.endAll();
        expect(play.mostAtOnce).toBeLessThanOrEqual(maxConcurrent);
        for (const used of play.usedByDay.values()) expect(used).toBeLessThanOrEqual(dailyTokens);
      }),
      runs,
    );
  });
});

it('what is limited apart has minutes and places of its own, and the same day', () => {
  const limiter = new Limiter();
  const apart = limiter.apart();
  const limits = { requestsPerMinute: 1, maxConcurrent: 1, dailyTokens: 10 };
  const background = apart.admit('a', limits, NOON_MS);
  expect(apart.admit('a', limits, NOON_MS).ok).toBe(false);
  const awaited = limiter.admit('a', limits, NOON_MS);
  if (!background.ok || !awaited.ok) throw new Error('was refused');
  background.permit.settle(6, NOON_MS);
  awaited.permit.settle(4, NOON_MS);
  for (const one of [limiter, apart]) {
    expect(one.admit('a', { dailyTokens: 10 }, NOON_MS)).toMatchObject({ ok: false, kind: 'daily' });
  }
});
