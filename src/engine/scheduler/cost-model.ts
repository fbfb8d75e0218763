// Learns how long a step takes from the steps that were measured:
//   ms = fixed + perToken × tokens + perSequence × sequences + perAttended × attended
// A least-squares fit over recent steps with no negative coefficient. Where the steps cannot tell two
// coefficients apart (decode only: tokens = sequences), the fit stays at what was known before.

import type { StepLoad } from './step-plan.ts';

/** Weight of an observation after n further ones: MEMORY^n. */
const MEMORY = 0.98;
/** A step beyond this factor of its prediction is taken for a disturbance and counts as the factor. */
const OUTLIER_FACTOR = 3;
/** Observations before a prediction is trusted to call something an outlier. */
const TRUSTED_AFTER = 8;
const SWEEPS = 8;
/** Pull towards the coefficients of the step before, relative to a feature's own weight. */
const INERTIA = 1e-3;
/** Brings attended pairs to the size of the other features. */
const ATTENDED_UNIT = 1000;
const FEATURES = 4;

export class CostModel {
  readonly #coefficients = new Float64Array(FEATURES);
  /** Decayed sums of x xᵀ and x y. */
  readonly #products = new Float64Array(FEATURES * FEATURES);
  readonly #targets = new Float64Array(FEATURES);
  #observations = 0;

  get observations(): number {
    return this.#observations;
  }

  observe(load: StepLoad, ms: number): void {
    if (!(ms > 0) || load.tokens === 0) return;
    const features = featuresOf(load);
    const measured = this.#withoutDisturbance(load, ms);
    // Relative errors count, so that a long prefill does not drown decode steps.
    const weight = 1 / (measured * measured);
    for (let i = 0; i < FEATURES; i++) {
      const feature = features[i] as number;
      this.#targets[i] = MEMORY * (this.#targets[i] as number) + weight * feature * measured;
      for (let j = 0; j < FEATURES; j++) {
        const at = i * FEATURES + j;
        this.#products[at] =
          MEMORY * (this.#products[at] as number) + weight * feature * (features[j] as number);
      }
    }
    this.#observations += 1;
    this.#fit();
  }

  predictMs(load: StepLoad): number {
    const features = featuresOf(load);
    let ms = 0;
    for (let i = 0; i < FEATURES; i++) ms += (this.#coefficients[i] as number) * (features[i] as number);
    return ms;
  }

  /**
   * What `tokens` of one sequence cost in a step of `sequences`, which share alike what every step costs. Before
   * anything was measured, the number of tokens.
   */
  workOf(tokens: number, attended: number, sequences: number): number {
    if (this.#observations === 0) return tokens;
    const fixed = (this.#coefficients[0] as number) / sequences;
    const perToken = this.#coefficients[1] as number;
    const perSequence = this.#coefficients[2] as number;
    const perAttended = (this.#coefficients[3] as number) / ATTENDED_UNIT;
    return fixed + perSequence + perToken * tokens + perAttended * attended;
  }

  /** Tokens of one chunk after `start` others that fit with `load` within the target; may be infinite. */
  chunkWithin(targetMs: number, load: StepLoad, start: number): number {
    const perToken = this.#coefficients[1] as number;
    const perSequence = this.#coefficients[2] as number;
    const perAttended = (this.#coefficients[3] as number) / ATTENDED_UNIT;
    const leftMs = targetMs - this.predictMs(load) - perSequence;
    if (leftMs <= 0) return 0;
    // perToken × n + perAttended × (n × start + n² / 2) = leftMs, in the form that survives perAttended = 0.
    const linear = perToken + perAttended * start;
    return (2 * leftMs) / (linear + Math.sqrt(linear * linear + 2 * perAttended * leftMs));
  }

  #withoutDisturbance(load: StepLoad, ms: number): number {
    if (this.#observations < TRUSTED_AFTER) return ms;
    return Math.min(ms, OUTLIER_FACTOR * this.predictMs(load));
  }

  /** Coordinate descent, each coefficient cut at zero, starting from the last fit. */
  #fit(): void {
    const anchor = Float64Array.from(this.#coefficients);
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      for (let i = 0; i < FEATURES; i++) this.#fitOne(i, anchor[i] as number);
    }
  }

  #fitOne(i: number, anchor: number): void {
    let residual = this.#targets[i] as number;
    for (let j = 0; j < FEATURES; j++) {
      if (j !== i)
        residual -= (this.#products[i * FEATURES + j] as number) * (this.#coefficients[j] as number);
    }
    const own = this.#products[i * FEATURES + i] as number;
    if (own === 0) return;
    const pull = INERTIA * own;
    this.#coefficients[i] = Math.max(0, (residual + pull * anchor) / (own + pull));
  }
}

function featuresOf(load: StepLoad): readonly number[] {
  return [1, load.tokens, load.sequences, load.attended / ATTENDED_UNIT];
}
