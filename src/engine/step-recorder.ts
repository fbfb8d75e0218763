// Measures how long each part of a step takes, and counts steps, requests and tokens.

import type { EndReason } from './request.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import type { StepTimes } from './step-report.ts';

type Part = keyof StepTimes;

const none: StepTimes = { scheduleMs: 0, computeMs: 0, sampleMs: 0, emitMs: 0 };

export interface EngineRecord {
  readonly steps: number;
  /** Forward passes of the backend: one a step. */
  readonly forwardPasses: number;
  /** How many were submitted, and how many ended in which way. */
  readonly requests: Readonly<Record<EndReason | 'submitted' | 'direct', number>>;
  readonly generatedTokens: number;
  readonly times: { readonly total: StepTimes; readonly last: StepTimes };
  readonly lastStep: { readonly tokens: number; readonly sequences: number };
}

/** One step that has ended. */
export interface RecordedStep {
  readonly step: number;
  readonly times: StepTimes;
  readonly ms: number;
}

export class StepRecorder {
  readonly #nowMs: () => number;
  readonly #requests = { submitted: 0, direct: 0, stop: 0, length: 0, cancelled: 0, error: 0 };
  #startedMs = 0;
  #lapMs = 0;
  #times: { -readonly [Each in Part]: number } = { ...none };
  #total: StepTimes = none;
  #last: StepTimes = none;
  #steps = 0;
  #forwardPasses = 0;
  #generatedTokens = 0;
  #lastStep = { tokens: 0, sequences: 0 };

  /** The clock counts milliseconds from anywhere. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get record(): EngineRecord {
    return {
      steps: this.#steps,
      forwardPasses: this.#forwardPasses,
      requests: { ...this.#requests },
      generatedTokens: this.#generatedTokens,
      times: { total: this.#total, last: this.#last },
      lastStep: this.#lastStep,
    };
  }

  /** Since the step began. */
  get elapsedMs(): number {
    return this.#lapMs - this.#startedMs;
  }

  begin(): void {
    this.#startedMs = this.#nowMs();
    this.#lapMs = this.#startedMs;
    this.#times = { ...none };
  }

  /** The time since the last lap went into that part. */
  lap(part: Part): void {
    const nowMs = this.#nowMs();
    this.#times[part] += nowMs - this.#lapMs;
    this.#lapMs = nowMs;
  }

  computed(): void {
    this.#forwardPasses++;
    this.lap('computeMs');
  }

  end({ load }: StepPlan): RecordedStep {
    this.lap('emitMs');
    this.#steps++;
    this.#lastStep = { tokens: load.tokens, sequences: load.sequences };
    this.#last = this.#times;
    this.#total = {
      scheduleMs: this.#total.scheduleMs + this.#last.scheduleMs,
      computeMs: this.#total.computeMs + this.#last.computeMs,
      sampleMs: this.#total.sampleMs + this.#last.sampleMs,
      emitMs: this.#total.emitMs + this.#last.emitMs,
    };
    return { step: this.#steps, times: this.#last, ms: this.elapsedMs };
  }

  submitted(direct: boolean): void {
    this.#requests.submitted++;
    if (direct) this.#requests.direct++;
  }

  generated(tokens: number): void {
    this.#generatedTokens += tokens;
  }

  ended(reason: EndReason): void {
    this.#requests[reason]++;
  }
}
