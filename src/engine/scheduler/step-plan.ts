// StepPlan: what one forward pass computes, as plain data.

import type { StateUse } from '../../compute/batch-states.ts';
import type { Draft } from './draft.ts';
import type { Stretch } from './pooled-states.ts';
import type { Sequence } from './sequence.ts';

/**
 * Compute tokens `start … start + count - 1` of the sequence; its table has blocks for all of them. The last of them may be
 * a draft of what follows its own tokens.
 */
export interface StepItem {
  readonly sequence: Sequence;
  readonly start: number;
  readonly count: number;
  /** Only where it samples. */
  readonly draft: Draft;
  /**
   * The item reaches the end of a sequence that goes on: the logits of its last row give the next token, and those of each
   * draft token the one after it, if the draft token is accepted.
   */
  readonly samples: boolean;
  /** States of the item's rows that are pooled, by position: from the first to before the second. */
  readonly states: Stretch;
  /** Rows of the item whose logits say how likely the tokens after them were, likewise. */
  readonly scores: Stretch;
  /** Where the model has recurrentStates. */
  readonly state?: StateUse;
}

/** Asked for drafts of the sequences for which a token is sampled, and with what the step is without them. */
export type Propose = (sampling: readonly Sequence[], load: StepLoad) => ReadonlyMap<Sequence, Draft>;

/** What a step's duration depends on. */
export interface StepLoad {
  readonly tokens: number;
  readonly sequences: number;
  /** Sum over all tokens of the tokens each attends to, itself included. */
  readonly attended: number;
}

export interface StepPlan {
  /** Empty only where there is nothing to do at all. */
  readonly items: readonly StepItem[];
  readonly admitted: readonly Sequence[];
  /** Those whose first blocks shall come up from a lower tier: the engine begins with it. */
  readonly loading: readonly Sequence[];
  /** Those that may be computed from now on, because theirs have come up. */
  readonly loaded: readonly Sequence[];
  readonly preempted: readonly Sequence[];
  readonly load: StepLoad;
}

/** Pairs of a token and one it attends to, for `count` tokens after `start` others, with causal attention. */
export function attendedTokens(start: number, count: number): number {
  return count * start + (count * (count + 1)) / 2;
}
