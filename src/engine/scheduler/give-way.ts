// Who gives way: which running sequences are preempted for the good of another. Accounts that run several come first, so that
// a batch of one account is never in the way of a single request of another.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { Sequence } from './sequence.ts';

export interface Accounts {
  /** Running sequences of an account. */
  readonly runningOf: (account: string) => number;
  /** What a sequence's account was served in its tier. */
  readonly servedOf: (sequence: Sequence) => number;
}

/** What a guest lacks: a sequence whose account runs nothing. */
interface Lack {
  readonly lanes: number;
  readonly blocks: number;
  /** Blocks that a sequence gives back where it stops. */
  readonly freedBy: (sequence: Sequence) => number;
}

/**
 * Those of the running, in order of urgency, that make place for a guest; undefined where they would not suffice. Each account
 * keeps one, nobody gives way to a lower tier, and within a tier the one served most gives way first, its youngest before.
 */
export function makePlace(
  running: readonly Sequence[],
  guest: Sequence,
  { runningOf, servedOf }: Accounts,
  { lanes, blocks, freedBy }: Lack,
): Sequence[] | undefined {
  const candidates = running.filter(
    (each) =>
      each.account !== guest.account &&
      each.priority >= guest.priority &&
      runningOf(each.account) > 1 &&
      mayGiveWay(each),
  );
  const order = candidates
    .map((sequence, place) => ({ sequence, place, served: servedOf(sequence) }))
    .sort((a, b) => b.sequence.priority - a.sequence.priority || b.served - a.served || b.place - a.place);
  const chosen: Sequence[] = [];
  const left = new Map<string, number>();
  let freed = 0;
  for (const { sequence } of order) {
    if (chosen.length >= lanes && freed >= blocks) break;
    const others = (left.get(sequence.account) ?? runningOf(sequence.account)) - 1;
    if (others === 0) continue;
    left.set(sequence.account, others);
    chosen.push(sequence);
    freed += freedBy(sequence);
  }
  return chosen.length >= lanes && freed >= blocks ? chosen : undefined;
}

/** Nobody more urgent waits for it. After each preemption it must come twice as far, so that all get on. */
function mayGiveWay({ rank, key, computed, startedFrom, preemptions }: Sequence): boolean {
  return rank === key && computed - startedFrom >= BLOCK_TOKENS * (2 ** preemptions - 1);
}

/**
 * Who of the running, in order of urgency, is preempted for want of blocks: the last, but where its account runs nothing else
 * and another of its tier runs several, the last of the one that was served most.
 */
export function leastEntitled(running: readonly Sequence[], { runningOf, servedOf }: Accounts): Sequence {
  const last = running.at(-1) as Sequence;
  if (runningOf(last.account) > 1) return last;
  let victim = last;
  let most = Number.NEGATIVE_INFINITY;
  for (let i = running.length - 2; i > 0; i--) {
    const sequence = running[i] as Sequence;
    if (sequence.priority !== last.priority || sequence.rank < sequence.key) continue;
    if (sequence.account === victim.account || runningOf(sequence.account) === 1) continue;
    const served = servedOf(sequence);
    if (served <= most) continue;
    victim = sequence;
    most = served;
  }
  return victim;
}
