// Measured speeds of a model's steps: the time of a prompt token, and of a step by its number of rows. Adapts as the machine
// becomes slower or faster.

import type { StepSummary } from '../../engine/step-report.ts';
import type { KnownSpeeds } from '../routing/heartbeat.ts';

/** Weight of a new step in the running means. */
const LEARNING = 0.05;
/** Until a larger step is seen. */
const USUAL_STEP_TOKENS = 256;
/**
 * A step beyond this factor of what is expected of it is taken for a disturbance and counts as the factor: one that hung would
 * make a worker believe itself slow for many steps, and gateways wait for as long before they call it stuck.
 */
const OUTLIER_FACTOR = 3;
/** Steps before what is expected is trusted to call something an outlier. */
const TRUSTED_AFTER = 8;

export class StepSpeeds {
  #promptTokenMs: number | undefined;
  // A line through (rows, milliseconds), by running means.
  #rows = 0;
  #ms = 0;
  #rowsRows = 0;
  #rowsMs = 0;
  /** On that line. */
  #steps = 0;
  /** All steps, those of prompts as well. */
  #observations = 0;
  #mostTokens = USUAL_STEP_TOKENS;

  observe({ tokens, sequences, times }: StepSummary): void {
    if (tokens === 0) return;
    this.#mostTokens = Math.max(this.#mostTokens, tokens);
    const ms = times.scheduleMs + times.computeMs + times.sampleMs + times.emitMs;
    // Draft tokens are a few rows more; prompts are many.
    if (tokens < 4 * sequences) this.#decoded(sequences, ms);
    else this.#prompted(sequences, tokens - sequences, ms);
    this.#observations += 1;
  }

  get speeds(): KnownSpeeds {
    return {
      stepTokens: this.#mostTokens,
      ...(this.#promptTokenMs === undefined ? {} : { promptTokenMs: this.#promptTokenMs }),
      ...(this.#steps === 0 ? {} : this.#line()),
    };
  }

  #decoded(rows: number, measuredMs: number): void {
    const ms = this.#steps === 0 ? measuredMs : this.#withoutDisturbance(measuredMs, rows, 0);
    this.#steps += 1;
    const weight = Math.max(LEARNING, 1 / this.#steps);
    this.#rows += weight * (rows - this.#rows);
    this.#ms += weight * (ms - this.#ms);
    this.#rowsRows += weight * (rows * rows - this.#rowsRows);
    this.#rowsMs += weight * (rows * ms - this.#rowsMs);
  }

  #prompted(rows: number, tokens: number, ms: number): void {
    if (this.#promptTokenMs === undefined) {
      this.#promptTokenMs = ms / tokens;
      return;
    }
    const each = this.#withoutDisturbance(ms, rows, tokens) / tokens;
    this.#promptTokenMs += LEARNING * (each - this.#promptTokenMs);
  }

  #withoutDisturbance(ms: number, rows: number, promptTokens: number): number {
    const { stepBaseMs, stepRowMs } = this.#line();
    const expectedMs = stepBaseMs + stepRowMs * rows + (this.#promptTokenMs ?? 0) * promptTokens;
    const isTrusted = expectedMs > 0 && this.#observations >= TRUSTED_AFTER;
    return isTrusted ? Math.min(ms, OUTLIER_FACTOR * expectedMs) : ms;
  }

  #line(): { readonly stepBaseMs: number; readonly stepRowMs: number } {
    const variance = this.#rowsRows - this.#rows ** 2;
    const slope = variance < 0.01 ? 0 : (this.#rowsMs - this.#rows * this.#ms) / variance;
    const stepRowMs = Math.min(Math.max(0, slope), this.#ms / Math.max(1, this.#rows));
    return { stepBaseMs: this.#ms - stepRowMs * this.#rows, stepRowMs };
  }
}
