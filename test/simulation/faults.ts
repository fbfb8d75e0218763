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
] as const;

export type FaultKind = (typeof faultKinds)[number];

export interface Fault {
  readonly kind: FaultKind;
  readonly atMs: number;
  readonly durationMs: number;
  /** Which worker or gateway, modulo their number. */
  readonly target: number;
  /** A share, a time, a factor: from 0 to 1, as its kind takes it. */
  readonly amount: number;
}

interface FaultPlan {
  readonly fromMs: number;
  readonly untilMs: number;
  /** On average. */
  readonly everyMs: number;
}

/** Longer ones are rarer. */
const DURATIONS_MS: readonly (readonly [weight: number, range: readonly [number, number]])[] = [
  [4, [50, 1500]],
  [5, [1500, 6000]],
  [4, [6000, 20_000]],
  [1, [20_000, 45_000]],
];

/** What a lost message does depends on which it is: one in so many is seldom the one that matters. */
const LOSS_SHARE = 0.12;

export function planFaults(chance: Chance, { fromMs, untilMs, everyMs }: FaultPlan): Fault[] {
  const faults: Fault[] = [];
  // Some episodes see a few kinds alone: what needs several of a kind is met sooner.
  const kinds = chance.happens(0.5) ? chance.shuffled(faultKinds).slice(0, 4) : faultKinds;
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
