// A step plan while it is being made.

import type { StateUse } from '../../compute/batch-states.ts';
import type { StateSlots } from '../cache/state-slots.ts';
import type { Draft } from './draft.ts';
import { LONGEST_OVERTAKING } from './flow.ts';
import type { Sequence } from './sequence.ts';
import { attendedTokens, type StepItem, type StepLoad, type StepPlan } from './step-plan.ts';

interface PartialItem {
  readonly sequence: Sequence;
  /** Without draft tokens. */
  count: number;
  draft: Draft;
}

export interface PartialPlan {
  readonly items: PartialItem[];
  readonly admitted: Sequence[];
  readonly preempted: Sequence[];
  /** Those of them that made place within their own account's part of the blocks. */
  overShare: number;
  /** Those of them that made place where only a lane was missing. */
  notForBlocks: number;
  /** Prefill tokens not handed out yet. */
  left: number;
  /** The most urgent prompt has its chunk. */
  hasChunk: boolean;
  /** Someone got fewer tokens, or no place, for want of blocks. */
  short: boolean;
}

/** Takes a preempted sequence out of the step. */
export function takeOut(partial: PartialPlan, sequence: Sequence): void {
  const index = partial.items.findIndex((item) => item.sequence === sequence);
  if (index < 0) return;
  partial.left += (partial.items[index] as PartialItem).count;
  partial.items.splice(index, 1);
}

/** What the sequences that decode make of the step. */
export function decodeLoad(running: readonly Sequence[]): StepLoad {
  let sequences = 0;
  let attended = 0;
  for (const { remaining, length } of running) {
    if (remaining !== 1) continue;
    sequences += 1;
    attended += length;
  }
  return { tokens: sequences, sequences, attended };
}

/**
 * Of sequences in order of urgency: the leading prompt, and those with less to compute than it, shortest first. The most urgent
 * one leads, or another of its tier, not more than a minute younger, whose account was served less.
 */
export function prefillOrder(
  running: readonly Sequence[],
  servedOf: (sequence: Sequence) => number,
): Sequence[] {
  const prefills = running.filter(({ remaining }) => remaining > 1);
  const [urgent] = prefills;
  if (urgent === undefined) return [];
  const leader = prefills.length === 1 ? urgent : leastServed(urgent, prefills, servedOf);
  const shorter = prefills.filter(({ remaining }) => remaining < leader.remaining);
  return [leader, ...shorter.sort((a, b) => a.remaining - b.remaining)];
}

function leastServed(
  urgent: Sequence,
  prefills: readonly Sequence[],
  servedOf: (sequence: Sequence) => number,
): Sequence {
  let leader = urgent;
  // Somebody more urgent waits for its blocks.
  if (urgent.rank < urgent.key) return leader;
  let least = servedOf(urgent);
  for (const sequence of prefills) {
    const { account, priority, key } = sequence;
    if (account === leader.account || priority !== urgent.priority) continue;
    const served = servedOf(sequence);
    if (served >= least || key - urgent.key > LONGEST_OVERTAKING) continue;
    leader = sequence;
    least = served;
  }
  return leader;
}

/** Computed tokens of the prefill that has come furthest: its tokens are the dearest. */
export function longestPrefill(running: readonly Sequence[]): number {
  return running.reduce(
    (most, { remaining, computed }) => (remaining > 1 ? Math.max(most, computed) : most),
    0,
  );
}

function stepItem({ sequence, count: own, draft }: PartialItem, state: StateUse | undefined): StepItem {
  const { pooled, length, computed: start } = sequence;
  const samples = pooled === undefined && start + own === length;
  const states = pooled?.wantedOf(start, own) ?? [0, 0];
  const count = own + draft.tokens.length;
  return { sequence, start, count, draft, samples, states, ...(state === undefined ? {} : { state }) };
}

/** With a whole text more, each token of which attends to all. */
export function besideText({ tokens, sequences, attended }: StepLoad, length: number): StepLoad {
  return { tokens: tokens + length, sequences: sequences + 1, attended: attended + length * length };
}

export const noLoad: StepLoad = { tokens: 0, sequences: 0, attended: 0 };

/** `load` is what was counted on the way; where nothing was, tokens attend to those before them. */
export function finishedPlan(
  { items, admitted, preempted }: PartialPlan,
  slots: StateSlots | undefined,
  load?: StepLoad,
): StepPlan {
  const states = slots?.plan(
    items.map(({ sequence, count, draft }) => ({
      holder: sequence,
      count,
      draftTokens: draft.tokens.length,
    })),
  );
  const steps = items.map((item, index) => stepItem(item, states?.[index]));
  return { items: steps, admitted, preempted, load: load ?? loadOf(items) };
}

/** Where tokens attend to those before them. */
export function loadOf(items: readonly PartialItem[]): StepLoad {
  let tokens = 0;
  let attended = 0;
  for (const { sequence, count, draft } of items) {
    tokens += count + draft.tokens.length;
    attended += attendedTokens(sequence.computed, count + draft.tokens.length);
  }
  return { tokens, sequences: items.length, attended };
}
