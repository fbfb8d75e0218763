// What happens to a simulated fleet: a schedule of faults by seed. Each begins at a time, strikes somebody, and ends after a while,
// so that any subset of them is a schedule, too.

import type { Chance } from '../chaos/chance.ts';

export const faultKinds = [
  'kill worker',
  'kill gateway',
  'stop worker',
  'stop gateway',
  'stall worker',
  'stall gateway',
  'cut worker',
  'cut gateway',
  'cut worker up',
  'cut worker down',
  'cut gateway up',
  'cut gateway down',
  'message loss',
  'doubled messages',
  'disordered messages',
  'slow worker link',
  'slow gateway link',
  'message system down',
  'refused subscription',
  'engine hangs',
  'engine dies',
  'engine slow',
  'worker clock jumps',
  'gateway clock jumps',
  'archive full',
  'archive loses acknowledged',
  'archive stale leader',
  'database away',
  'database away from gateway',
  'database full',
  'database loses answers',
  'drain worker',
  'kill all workers',
  'lost submits',
  'lost ends',
] as const;

export type FaultKind = (typeof faultKinds)[number];

/** A stream of many tokens, or a line of a batch, is given to a worker. */
export type Trigger = 'stream' | 'line';

export interface Fault {
  readonly kind: FaultKind;
  readonly atMs: number;
  readonly durationMs: number;
  /** Which worker or gateway, modulo their number. */
  readonly target: number;
  /** A share, a time, a factor: from 0 to 1, as its kind takes it. */
  readonly amount: number;
  /** Strikes at the first of these after `atMs`, whoever takes part in it; never, where there is none. */
  readonly after?: Trigger;
}

interface FaultPlan {
  readonly fromMs: number;
  readonly untilMs: number;
  /** On average, of a broad schedule. */
  readonly everyMs: number;
}

type Range = readonly [number, number];

/** Longer ones are rarer. */
const DURATIONS_MS: readonly (readonly [weight: number, range: Range])[] = [
  [4, [50, 1500]],
  [5, [1500, 6000]],
  [4, [6000, 20_000]],
  [1, [20_000, 45_000]],
];

/** What a lost message does depends on which it is: one in so many is seldom the one that matters. */
const LOSS_SHARE = 0.12;

/** Most schedules aim; the others are broad. */
export function planFaults(chance: Chance, plan: FaultPlan): Fault[] {
  return chance.happens(0.4) ? planBroad(chance, plan) : planAimed(chance, plan);
}

/** One fault upon the other, of all kinds or of a few. */
function planBroad(chance: Chance, { fromMs, untilMs, everyMs }: FaultPlan): Fault[] {
  const faults: Fault[] = [];
  // Some episodes see a few kinds alone: what needs several of a kind is met sooner.
  const kinds = chance.happens(0.4) ? chance.shuffled(faultKinds).slice(0, 4) : faultKinds;
  for (let atMs = fromMs; ; ) {
    atMs += Math.round(everyMs * (0.1 + 1.8 * (chance.below(1000) / 1000)));
    if (atMs >= untilMs) return faults;
    const durationMs = Math.min(chance.between(...chance.weighted(DURATIONS_MS)), untilMs - atMs);
    faults.push({
      kind: chance.happens(LOSS_SHARE) ? 'message loss' : chance.pick(kinds),
      atMs,
      durationMs,
      target: chance.below(12),
      amount: chance.below(1000) / 1000,
    });
  }
}

/** With a duration that shows what it does. */
const AIMED: readonly (readonly [kind: FaultKind, range: Range])[] = [
  ['engine hangs', [14_000, 28_000]],
  ['engine dies', [1000, 1000]],
  ['stall gateway', [4000, 14_000]],
  ['stall worker', [4000, 20_000]],
  ['cut gateway', [9000, 20_000]],
  ['cut worker', [5000, 20_000]],
  ['kill all workers', [5000, 15_000]],
  ['kill worker', [3000, 20_000]],
  ['kill gateway', [1000, 5000]],
  ['message system down', [6000, 20_000]],
  ['lost submits', [5000, 15_000]],
  ['lost ends', [5000, 15_000]],
  ['database loses answers', [8000, 20_000]],
  ['database away', [3000, 12_000]],
  ['slow worker link', [5000, 15_000]],
  ['doubled messages', [5000, 15_000]],
];

/** At a line of a batch: leases of lines run out after 30 s. */
const AT_LINES: readonly (readonly [kind: FaultKind, range: Range])[] = [
  ['stall gateway', [30_500, 35_000]],
  ['stall gateway', [30_500, 35_000]],
  ['database away from gateway', [30_500, 35_000]],
  ['database loses answers', [3000, 15_000]],
  ['kill gateway', [1000, 5000]],
  ['engine hangs', [14_000, 28_000]],
];

const BETWEEN_AIMED_MS = [21_000, 30_000] as const;
const AIMED_KINDS = 7;
const PAIRED_SHARE = 0.15;

/** Few kinds, one after the other, each at something that it can spoil, and time between them: what is late then has no excuse. */
function planAimed(chance: Chance, { fromMs, untilMs }: FaultPlan): Fault[] {
  const faults: Fault[] = [];
  const kinds = chance.shuffled(AIMED).slice(0, AIMED_KINDS);
  const add = ([kind, range]: (typeof AIMED)[number], atMs: number, target: number, after?: Trigger) => {
    const durationMs = Math.min(chance.between(...range), untilMs - atMs);
    const amount = chance.below(1000) / 1000;
    faults.push({ kind, atMs, durationMs, target, amount, ...(after === undefined ? {} : { after }) });
    return atMs + durationMs;
  };
  add(chance.pick(AT_LINES), fromMs, chance.below(12), 'line');
  for (let atMs = fromMs + 10_000; atMs < untilMs; atMs += chance.between(...BETWEEN_AIMED_MS)) {
    const target = chance.below(12);
    const isPaired = chance.happens(PAIRED_SHARE);
    const endMs = add(chance.pick(kinds), atMs, target, chance.happens(0.6) ? 'stream' : undefined);
    if (isPaired) add(chance.pick(kinds), atMs + chance.between(200, 3000), target);
    atMs = endMs;
  }
  return faults;
}
