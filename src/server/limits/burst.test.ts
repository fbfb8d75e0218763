// Never more than the burst: whatever is held, given back and when, within any time a key uses no more tokens than a
// minute's worth and what its rate brings in that time. So it is over Postgres, which must answer as the memory does.

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type HeldPermit, Limiter } from './limiter.ts';

const START_MS = Date.UTC(2026, 0, 31, 12);

interface Move {
  readonly elapsedMs: number;
  readonly least: number;
  readonly expected: number;
  /** How much of what is held is used. */
  readonly share: number;
  /** Which of the running requests moves: it ends, or takes more. */
  readonly which: number;
  readonly what: 'ask' | 'end' | 'grow';
}

const move: fc.Arbitrary<Move> = fc.record({
  // A clock may be set back, too.
  elapsedMs: fc.oneof(fc.constant(0), fc.nat(5000), fc.nat(90_000), fc.integer({ min: -90_000, max: 0 })),
  least: fc.nat(50),
  expected: fc.nat(2000),
  share: fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  which: fc.nat(5),
  what: fc.constantFrom('ask', 'ask', 'end', 'grow'),
});

interface Taken {
  /** How far the clock had gone forward. */
  readonly atMs: number;
  used: number;
}

interface Running {
  readonly permit: HeldPermit;
  readonly taken: Taken[];
}

it('within any time no key uses more tokens than its burst and its rate allow', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1500 }),
      fc.array(move, { minLength: 1, maxLength: 120 }),
      (tokensPerMinute, moves) => {
        const book = play(tokensPerMinute, moves);
        for (const [first, { atMs }] of book.entries()) {
          let used = 0;
          for (const taken of book.slice(first)) {
            used += taken.used;
            const allowed = tokensPerMinute * (1 + (taken.atMs - atMs) / 60_000);
            expect(used).toBeLessThanOrEqual(allowed + 1e-6);
          }
        }
      },
    ),
    { numRuns: 300 },
  );
});

/** What was used of each hold, by when it was taken. */
function play(tokensPerMinute: number, moves: readonly Move[]): Taken[] {
  const limiter = new Limiter();
  const running: Running[] = [];
  const book: Taken[] = [];
  let nowMs = START_MS;
  let forwardMs = 0;
  const take = (one: Running, tokens: number) => {
    const taken = { atMs: forwardMs, used: tokens };
    one.taken.push(taken);
    book.push(taken);
  };
  const end = ({ permit, taken }: Running, share: number) => {
    const last = taken.at(-1) as Taken;
    last.used = Math.floor(share * last.used);
    permit.settle(
      taken.reduce((sum, { used }) => sum + used, 0),
      nowMs,
    );
  };
  for (const { elapsedMs, least, expected, share, which, what } of moves) {
    nowMs += elapsedMs;
    forwardMs += Math.max(0, elapsedMs);
    const one = running[which % Math.max(1, running.length)];
    if (what === 'ask' || one === undefined) {
      const demand = { least: Math.min(least, expected), expected };
      const result = limiter.admit('a', { tokensPerMinute }, nowMs, demand);
      const weighed = result.ok ? result.permit.weigh(demand, nowMs) : result;
      if (!result.ok || !weighed.ok || !('heldTokens' in weighed)) continue;
      const asked = { permit: result.permit, taken: [] };
      running.push(asked);
      take(asked, weighed.heldTokens);
    } else if (what === 'grow') {
      take(one, one.permit.grow(256, nowMs));
    } else {
      running.splice(running.indexOf(one), 1);
      end(one, share);
    }
  }
  for (const one of running) end(one, 1);
  return book;
}
