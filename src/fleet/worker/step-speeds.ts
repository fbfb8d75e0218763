// Measured speeds of a model's steps: the time of a prompt token, and of a step by its number of rows. Adapts as the machine
// becomes slower or faster.

import type { StepSummary } from '../../engine/step-report.ts';
import type { KnownSpeeds } from '../routing/heartbeat.ts';

/** Weight of a new step in the running means. */
const LEARNING = 0.05;
/** Until a larger step is seen. */
const USUAL_STEP_TOKENS = 256;

export class StepSpeeds {
  #promptTokenMs: number | undefined;
  // A line through (rows, milliseconds), by running means.
  #rows = 0;
  #ms = 0;
  #rowsRows = 0;
  #rowsMs = 0;
  #steps = 0;
  #mostTokens = USUAL_STEP_TOKENS;

  observe({ tokens, sequences, times }: StepSummary): void {
    if (tokens === 0) return;
    this.#mostTokens = Math.max(this.#mostTokens, tokens);
    const ms = times.scheduleMs + times.computeMs + times.sampleMs + times.emitMs;
    // Draft tokens are a few rows more; prompts are many.
    if (tokens < 4 * sequences) this.#decoded(sequences, ms);
    else this.#prompted(tokens - sequences, ms);
  }

  get speeds(): KnownSpeeds {
    return {
      stepTokens: this.#mostTokens,
      ...(this.#promptTokenMs === undefined ? {} : { promptTokenMs: this.#promptTokenMs }),
      ...(this.#steps === 0 ? {} : this.#line()),
    };
  }

  #decoded(rows: number, ms: number): void {
    this.#steps += 1;
    const weight = Math.max(LEARNING, 1 / this.#steps);
    this.#rows += weight * (rows - this.#rows);
    this.#ms += weight * (ms - this.#ms);
    this.#rowsRows += weight * (rows * rows - this.#rowsRows);
    this.#rowsMs += weight * (rows * ms - this.#rowsMs);
  }

  #prompted(tokens: number, ms: number): void {
    const each = ms / tokens;
    this.#promptTokenMs =
      this.#promptTokenMs === undefined
        ? each
        : this.#promptTokenMs + LEARNING * (each - this.#promptTokenMs);
  }

  #line(): { readonly stepBaseMs: number; readonly stepRowMs: number } {
    const variance = this.#rowsRows - this.#rows ** 2;
    const slope = variance < 0.01 ? 0 : (this.#rowsMs - this.#rows * this.#ms) / variance;
    const stepRowMs = Math.min(Math.max(0, slope), this.#ms / Math.max(1, this.#rows));
    return { stepBaseMs: this.#ms - stepRowMs * this.#rows, stepRowMs };
  }
}
