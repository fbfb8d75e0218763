// Draft lengths against machines whose steps cost as measured ones do, with a clock that wavers: they come close to the best
// that fixed numbers of draft tokens could do, and cost next to nothing where there is nothing to gain.

import { describe, expect, it } from 'vitest';
import type { StepItem } from '../scheduler/step-plan.ts';
import { AcceptanceRates } from './acceptance-rates.ts';
import { DraftLengths, draftLengths } from './draft-lengths.ts';

/** Steps by their rows, in steps of one row. */
const machines = {
  'a small model': [1, 1.02, 1.3, 1.18, 1.47, 1.62, 1.64, 1.65, 1.9, 2.17, 2.3, 2.45, 2.6, 2.7, 2.85, 2.99],
  '4 bits a weight': [1, 1.06, 1.75, 1.35, 2.07, 2.22, 2.1, 2.04, 2.5, 2.95, 3.1, 3.34, 3.5, 3.7, 3.9, 4.03],
  '8 bits a weight': [1, 1.08, 1.47, 1.23, 1.57, 1.63, 1.5, 1.39, 1.7, 2.01, 2.1, 2.16, 2.4, 2.6, 2.8, 3.05],
  'one whose rows cost nothing': Array.from({ length: 16 }, () => 1),
  'one whose rows cost much': Array.from({ length: 16 }, (_, i) => 1 + 0.35 * i),
} as const;
const ONE_MS = 40;
const predicted = { source: 'prediction', matchLength: 1 } as const;

function costOf(machine: keyof typeof machines, rows: number): number {
  const costs = machines[machine];
  const [last, before] = [costs[15] as number, costs[11] as number];
  return costs[rows - 1] ?? last + (rows - 16) * ((last - before) / 4);
}

class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  next(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) | 0;
    return (this.#state >>> 8) / 2 ** 24;
  }
}

interface Conditions {
  /** Tokens of each answer; many without it. */
  readonly tokens?: number;
  /** Others take up to half of the machine for some steps at a time. */
  readonly isBusy?: boolean;
  /** A number of rows that was measured while the machine was slow. */
  readonly mismeasured?: number;
}

/** How much slower the machine is, step by step. */
class Disturbance {
  readonly #dice: Dice;
  #factor = 1;
  #left = 0;

  constructor(dice: Dice) {
    this.#dice = dice;
  }

  next(): number {
    if (this.#left-- <= 0) {
      this.#left = 30 * this.#dice.next();
      this.#factor = this.#dice.next() < 0.6 ? 1 : 1 + this.#dice.next();
    }
    return this.#factor;
  }
}

/** How much faster `sequences` answers come with draft tokens of which a share is right. */
function gain(
  machine: keyof typeof machines,
  streams: number,
  share: number,
  { tokens = Math.ceil(3000 / streams), isBusy = false, mismeasured }: Conditions = {},
): number {
  const dice = new Dice(streams + Math.round(100 * share));
  const disturbance = new Disturbance(new Dice(streams));
  const rowTimes = [1, 4, 8, 16, 32].map((rows) => ({
    rows,
    ms: ONE_MS * costOf(machine, rows) * (rows === mismeasured ? 1.8 : 1),
  }));
  const lengths = new DraftLengths(rowTimes);
  const engineRates = new AcceptanceRates();
  const rates = Array.from({ length: streams }, () => new AcceptanceRates(engineRates));
  const load = { tokens: streams, sequences: streams, attended: 0 };
  let [withDrafts, without] = [0, 0];
  for (let made = 0; made < streams * tokens; ) {
    const counts = lengths.couldPay(load)
      ? lengths.of(
          rates.map((one) => chain(one.of(predicted), 31)),
          load,
        )
      : rates.map(() => 0);
    const rows = counts.reduce((sum, count) => sum + count, streams);
    const waver = (0.95 + 0.1 * dice.next()) * (isBusy ? disturbance.next() : 1);
    let kept = 0;
    for (const [i, count] of counts.entries()) {
      let right = 0;
      for (let isRight = true; isRight && right < Math.max(1, count); right += Number(isRight)) {
        isRight = dice.next() < share;
        rates[i]?.observe(predicted, isRight);
      }
      kept += 1 + Math.min(right, count);
    }
    made += kept;
    const ms = ONE_MS * costOf(machine, rows) * waver;
    withDrafts += ms;
    without += (kept / streams) * ONE_MS * costOf(machine, streams) * waver;
    const items = counts.map((count) => ({
      samples: true,
      count: 1 + count,
      draft: { tokens: { length: count } },
    }));
    lengths.observe(
      {
        items: items as unknown as StepItem[],
        admitted: [],
        loading: [],
        loaded: [],
        preempted: [],
        load: { ...load, tokens: rows },
      },
      ms,
    );
  }
  return without / withDrafts;
}

function chain(probability: number, length: number): number[] {
  return Array.from({ length }, (_, i) => probability ** (i + 1));
}

/** With the best number of draft tokens in every step. */
function best(machine: keyof typeof machines, streams: number, share: number): number {
  const expected = (draftTokens: number) => (1 - share ** (draftTokens + 1)) / (1 - share);
  // Steps have 64 rows at most.
  const gains = Array.from({ length: Math.min(31 * streams, 65 - streams) }, (_, draftTokens) => {
    const [each, more] = [Math.floor(draftTokens / streams), draftTokens % streams];
    const tokens = more * expected(each + 1) + (streams - more) * expected(each);
    return ((tokens / streams) * costOf(machine, streams)) / costOf(machine, streams + draftTokens);
  });
  return Math.max(...gains);
}

it('drafts are judged as if prompts beside them were computed already', () => {
  const load = { tokens: 512, sequences: 2, attended: 131_000 };
  // A row costs as much as a step: none pays, however long the prompt makes the step.
  const steep = new DraftLengths([1, 4, 8].map((rows) => ({ rows, ms: rows })));
  expect(steep.couldPay(load)).toBe(false);
  const flat = new DraftLengths([1, 4, 8].map((rows) => ({ rows, ms: 1 })));
  expect(flat.couldPay(load)).toBe(true);
  expect(flat.of([[0.9, 0.8]], load)).toEqual([2]);
});

it('what a round of an MTP head was measured to take counts before the first one, and a slow round is no proof', () => {
  const rows = [
    { rows: 1, ms: 1 },
    { rows: 8, ms: 2 },
  ];
  const times = (first: number, eighth: number) => [
    { rounds: 1, ms: first },
    { rounds: 8, ms: eighth },
  ];
  expect(new DraftLengths(rows, times(0.1, 0.8)).limits(1, 0.9).rounds).toBeGreaterThan(3);
  expect(new DraftLengths(rows, times(1.5, 12)).limits(1, 0.9).rounds).toBe(0);
  const lengths = new DraftLengths(rows, times(0.1, 0.8));
  lengths.observeDraft(1, { rounds: 1, ms: 3 });
  expect(lengths.limits(1, 0.9).rounds).toBeGreaterThan(0);
  for (let n = 0; n < 30; n++) lengths.observeDraft(1, { rounds: 1, ms: 3 });
  expect(lengths.limits(1, 0.9).rounds).toBe(0);
  for (let n = 0; n < 5; n++) lengths.observeDraft(1, { rounds: 1, ms: 0.1 });
  expect(lengths.limits(1, 0.9).rounds).toBeGreaterThan(3);
});

it('drafts whose rounds cost little next to the call are long, however dear the first round is', () => {
  const rows = [
    { rows: 1, ms: 1 },
    { rows: 8, ms: 1.4 },
  ];
  const lengths = new DraftLengths(rows, [
    { rounds: 1, ms: 0.5 },
    { rounds: 8, ms: 0.6 },
  ]);
  expect(lengths.limits(1, 0.95).rounds).toBe(8);
  // What one of four rounds took says what one of eight will.
  for (let n = 0; n < 100; n++) lengths.observeDraft(1, { rounds: 4, ms: 9 });
  expect(lengths.limits(1, 0.95).rounds).toBe(0);
});

it('a model drafts on for as long as what it drafts is likelier than a token costs: longer where rows and rounds are cheap', () => {
  const leastOf = (eightRowsMs: number, roundMs: number) => {
    const rows = [
      { rows: 1, ms: 1 },
      { rows: 8, ms: eightRowsMs },
    ];
    const drafts = [1, 4].map((rounds) => ({ rounds, ms: rounds * roundMs }));
    return Math.exp(new DraftLengths(rows, drafts).limits(1, 0.9).leastLogprob);
  };
  const [cheap, dearRows, dearRounds] = [leastOf(1.2, 0.05), leastOf(2, 0.05), leastOf(1.2, 0.2)];
  expect(cheap).toBeGreaterThan(0);
  expect(cheap).toBeLessThan(0.5);
  expect(dearRows).toBeGreaterThan(1.2 * cheap);
  expect(dearRounds).toBeGreaterThan(1.2 * cheap);
  expect(dearRounds).toBeLessThanOrEqual(0.9);
});

it('a model is asked where its tokens, added to what is known, are worth the time that it takes', () => {
  const rows = [1, 8, 32].map((count) => ({ rows: count, ms: 1 + 0.1 * (count - 1) }));
  const wants = (roundMs: number, known: readonly number[]) =>
    new DraftLengths(
      rows,
      [1, 4].map((rounds) => ({ rounds, ms: rounds * roundMs })),
    ).wantsModel(known, 1, 0.8);
  const surely = (length: number) => Array.from({ length }, (_, depth) => 0.99 ** (depth + 1));
  expect(wants(0.1, [])).toBe(true);
  expect(wants(0.1, surely(1))).toBe(true);
  expect(wants(0.1, surely(15))).toBe(false);
  expect(wants(3, surely(1))).toBe(false);
});

it('a model that nobody wants is asked again after a while', () => {
  const lengths = new DraftLengths([1, 8].map((rows) => ({ rows, ms: rows })));
  const asked = Array.from({ length: 200 }, () => {
    const isAsked = lengths.isTimeToAsk();
    if (isAsked) lengths.limits(1, 0.1);
    return isAsked;
  });
  const count = asked.filter(Boolean).length;
  expect(count).toBeGreaterThan(1);
  expect(count).toBeLessThan(5);
});

it('what a draft has taken makes more of its tokens worth their rows', () => {
  const lengths = new DraftLengths([1, 8].map((rows) => ({ rows, ms: 1 + 0.3 * (rows - 1) })));
  const load = { tokens: 1, sequences: 1, attended: 0 };
  const probabilities = [[0.7, 0.5, 0.35, 0.25]];
  const [alone] = lengths.of(probabilities, load) as [number];
  const [after] = lengths.of(probabilities, load, 2) as [number];
  expect(after).toBeGreaterThan(alone);
});

it('a draft before the first step says nothing where no step was measured: it has no unit to be told in', () => {
  const lengths = new DraftLengths();
  lengths.observeDraft(1, { rounds: 1, ms: 20 });
  expect(lengths.limits(1, 0.9).rounds).toBeGreaterThan(0);
  const measured = new DraftLengths([1, 8].map((rows) => ({ rows, ms: 1 })));
  measured.observeDraft(1, { rounds: 1, ms: 20 });
  expect(measured.limits(1, 0.9).rounds).toBe(0);
});

it('a draft model is asked for as many rounds as pay, and now and then for one where none does', () => {
  const lengths = new DraftLengths([1, 4, 8].map((rows) => ({ rows, ms: 1 })));
  expect(lengths.limits(1, 0.9).rounds).toBeGreaterThan(2);
  expect(lengths.limits(1, 0.1).rounds).toBe(0);
  lengths.observeDraft(1, { rounds: 2, ms: 200 });
  const asked = Array.from({ length: 130 }, () => lengths.limits(1, 0.9).rounds);
  expect(asked.filter((rounds) => rounds > 0)).toEqual([1, 1]);
});

const names = Object.keys(machines) as (keyof typeof machines)[];

describe.each(names)('drafts on %s', (machine) => {
  it.each([1, 2, 4])('come close to the best there is, for %i streams', (streams) => {
    for (const share of [0.5, 0.7, 0.95]) {
      expect(gain(machine, streams, share)).toBeGreaterThan(0.8 * best(machine, streams, share));
    }
  });

  it.each([1, 2, 4, 8, 16, 32])(
    'cost at most two in a hundred where they are wrong, for %i streams',
    (streams) => {
      expect(gain(machine, streams, 0)).toBeGreaterThan(0.98);
      expect(gain(machine, streams, 0.05)).toBeGreaterThan(0.98);
    },
  );

  it('cost at most two in a hundred where many answers come at once', () => {
    for (const share of [0.3, 0.7, 0.9]) expect(gain(machine, 16, share)).toBeGreaterThan(0.98);
  });

  it('cost at most two in a hundred from the first step on', () => {
    for (const streams of [4, 16]) expect(gain(machine, streams, 0.7, { tokens: 20 })).toBeGreaterThan(0.98);
  });

  it('cost at most two in a hundred where many answers come at once on a machine that others use too', () => {
    for (const share of [0.3, 0.7, 0.9]) {
      expect(gain(machine, 16, share, { isBusy: true })).toBeGreaterThan(0.98);
      expect(gain(machine, 16, share, { isBusy: true, tokens: 20 })).toBeGreaterThan(0.98);
    }
  });

  it.each([8, 16])(
    'cost at most two in a hundred where many answers come at once and %i rows were measured wrongly',
    (mismeasured) => {
      expect(gain(machine, 16, 0.7, { mismeasured })).toBeGreaterThan(0.98);
      expect(gain(machine, 16, 0.7, { mismeasured, tokens: 20 })).toBeGreaterThan(0.98);
    },
  );

  it.each([1, 4])('come close to the best there is on a busy machine too, for %i streams', (streams) => {
    for (const share of [0.5, 0.7, 0.95]) {
      expect(gain(machine, streams, share, { isBusy: true })).toBeGreaterThan(
        0.8 * best(machine, streams, share),
      );
    }
  });
});

describe('draft lengths are', () => {
  it('0 where a row costs as much as a step', () => {
    expect(draftLengths([chain(0.9, 8)], 1, (draftTokens) => 1 + draftTokens)).toEqual([0]);
  });

  it('0 where they promise little, and where many decode also where they promise more', () => {
    const halfARow = (draftTokens: number) => 1 + draftTokens / 2;
    expect(draftLengths([[0.51]], 1, halfARow)).toEqual([0]);
    expect(draftLengths([[0.6]], 1, halfARow)).toEqual([1]);
    expect(draftLengths([[1]], 8, () => 1)).toEqual([1]);
    expect(draftLengths([[1]], 9, () => 1)).toEqual([0]);
  });

  it('those of all proposals where they cost nothing', () => {
    expect(draftLengths([chain(0.5, 6), chain(0.1, 3)], 2, () => 1)).toEqual([6, 3]);
  });

  it('those that make most tokens a millisecond, over steps in the cost', () => {
    // Four rows cost hardly more than one, five much more.
    const costs = [1, 1.6, 1.7, 1.2, 2.5, 2.6];
    const stepMs = (draftTokens: number) => costs[draftTokens] ?? 9;
    expect(draftLengths([chain(0.6, 5)], 1, stepMs)).toEqual([3]);
  });

  it('longer for those whose draft tokens are likelier', () => {
    const stepMs = (draftTokens: number) => (draftTokens <= 3 ? 1 : 9);
    expect(draftLengths([chain(0.9, 5), chain(0.3, 5)], 2, stepMs)).toEqual([3, 0]);
    expect(draftLengths([chain(0.9, 5), chain(0.85, 5)], 2, stepMs)).toEqual([2, 1]);
  });
});
