// One request at a simulated worker: how far its prompt is computed, how many tokens it has given.

import { AGING_PER_SECOND, type Priority } from '#src/engine/sequence.ts';
import { reusableBlocks } from '#src/fleet/routing/prefix-keys.ts';

export interface SequenceStart {
  /** What the gateway calls it. */
  readonly id: number;
  readonly gateway: number;
  /** Of the prompt and of the answer's full blocks. */
  readonly blocks: Int32Array;
  /** With the tokens that it had already where it goes on after a failure. */
  readonly promptTokens: number;
  /** Still to be given. */
  readonly answerTokens: number;
  readonly priority: Priority;
  readonly enqueuedMs: number;
}

export class SimulatedSequence {
  readonly start: SequenceStart;
  /** Smaller goes first; the engine's own order. */
  readonly key: number;
  /** Prompt tokens in the cache, or computed. */
  computed = 0;
  /** Prompt tokens that it is expected to compute, as the worker tells it while the sequence waits. */
  expectedWork = 0;
  /** Full blocks that it holds, and blocks it writes to. */
  full = 0;
  written = 0;
  /** Tokens given by the end of step `atStep`, while it decodes. */
  given = 0;
  atStep = 0;
  /** The step after which something must be done: it ends, or needs a block. */
  dueStep = 0;
  /** Given before it was preempted, which makes them part of what must be computed again. */
  before = 0;
  cachedTokens: number | undefined;

  constructor(start: SequenceStart) {
    this.start = start;
    this.key = start.priority + (AGING_PER_SECOND * start.enqueuedMs) / 1000;
  }

  /** Tokens to compute before the next one comes. */
  get length(): number {
    return this.start.promptTokens + this.before;
  }

  get left(): number {
    return this.length - this.computed;
  }

  get reusable(): number {
    return reusableBlocks(this.length);
  }

  givenBy(step: number): number {
    return this.given + (step - this.atStep);
  }
}

/** Order of urgency. */
export function compareUrgency(a: SimulatedSequence, b: SimulatedSequence): number {
  return a.key - b.key || a.start.id - b.start.id;
}

export function compareDue(a: SimulatedSequence, b: SimulatedSequence): number {
  return a.dueStep - b.dueStep || a.start.id - b.start.id;
}
