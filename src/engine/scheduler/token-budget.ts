// How many tokens a step may compute: a fixed number, or what the cost model expects to fit a target time.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { CostModel } from './cost-model.ts';
import { Overrun } from './overrun.ts';
import type { StepLoad } from './step-plan.ts';

export type BudgetOptions =
  | { readonly kind: 'fixed'; readonly maxStepTokens: number }
  | {
      readonly kind: 'adaptive';
      readonly targetStepMs: number;
      /** Where nobody decodes while a prompt is computed. Default: the same. */
      readonly loneStepMs?: number | undefined;
      readonly maxStepTokens: number;
    };

/** An adaptive step may always have this many tokens, and its prefill as many, or nothing would move. */
const MINIMUM_TOKENS = BLOCK_TOKENS;
/** Shares of the target that steps are believed to exceed what is expected of them, before they are measured, and that one changes. */
const FIRST_OVERRUN = 0.1;
const OVERRUN_STEP = 0.05;
/** Beyond it, less for towers would help nobody: the machine itself stands still now and then. */
const MOST_OVERRUN = 0.25;
/** What is left, less what pieces of towers may take longer than expected themselves. */
const TOWER_CAUTION = 0.85;
/** Towers have so much of the target even where decodes alone exceed it, or no picture would ever be seen. */
const LEAST_TOWER_SHARE = 1 / 8;
/** Where a step has a number of tokens instead of a time. */
const FIXED_TOWER_MS = 50;
/** The model is believed up to this factor of the largest step that was measured. */
const EXTRAPOLATION = 2;

export class TokenBudget {
  readonly costModel = new CostModel();
  readonly #options: BudgetOptions;
  readonly #overrun: Overrun;
  #largestMeasured = MINIMUM_TOKENS;

  constructor(options: BudgetOptions) {
    if (!Number.isInteger(options.maxStepTokens) || options.maxStepTokens < 1) {
      throw new RangeError(
        `maxStepTokens must be a whole number of at least 1, not ${options.maxStepTokens}`,
      );
    }
    if (options.kind === 'adaptive' && !(options.targetStepMs > 0)) {
      throw new RangeError(`targetStepMs must be above 0, not ${options.targetStepMs}`);
    }
    this.#options = options;
    const targetMs = options.kind === 'fixed' ? FIXED_TOWER_MS : options.targetStepMs;
    this.#overrun = new Overrun(FIRST_OVERRUN * targetMs, OVERRUN_STEP * targetMs);
  }

  /** No step is ever larger, so no more sequences can run. */
  get maxStepTokens(): number {
    return this.#options.maxStepTokens;
  }

  /** Tokens left for prefill after the decodes and towers, for a chunk that follows `start` computed tokens. */
  prefillTokens(decodes: StepLoad, start: number, towerMs = 0): number {
    const most = this.#options.maxStepTokens - decodes.tokens;
    if (this.#options.kind === 'fixed') return most;
    const target = this.#targetMs(decodes);
    // Next to towers what is uncertain adds up.
    const leftMs = towerMs > 0 ? target - towerMs - this.#overrunMs(target) : target;
    const fitting = this.#chunkWithin(leftMs, decodes, start);
    return Math.min(most, Math.max(MINIMUM_TOKENS - decodes.tokens, fitting));
  }

  /**
   * Time for towers next to these decodes: what they leave of the target, even where the step takes longer than expected; half of it
   * where prompts want some, too.
   */
  towerMs(decodes: StepLoad, prefills: boolean): number {
    const target = this.#targetMs(decodes);
    const left = TOWER_CAUTION * (target - this.costModel.predictMs(decodes) - this.#overrunMs(target));
    return Math.max(target * LEAST_TOWER_SHARE, prefills ? left / 2 : left);
  }

  /** Tokens that running prefill gets even where decodes alone exceed the target. */
  prefillFloor(decodes: StepLoad): number {
    const most = this.#options.maxStepTokens - decodes.tokens;
    return this.#options.kind === 'fixed' ? most : Math.min(most, MINIMUM_TOKENS);
  }

  /** Whether a step of whole texts may be so large. */
  holds(load: StepLoad): boolean {
    if (load.tokens > this.#options.maxStepTokens) return false;
    if (this.#options.kind === 'fixed') return true;
    if (load.tokens > EXTRAPOLATION * this.#largestMeasured) return false;
    const { targetStepMs, loneStepMs = targetStepMs } = this.#options;
    return load.tokens <= MINIMUM_TOKENS || this.costModel.predictMs(load) <= loneStepMs;
  }

  observe(load: StepLoad, ms: number): void {
    if (this.costModel.observations > 0) this.#overrun.observe(ms - this.costModel.predictMs(load));
    this.costModel.observe(load, ms);
    this.#largestMeasured = Math.max(this.#largestMeasured, load.tokens);
  }

  #overrunMs(target: number): number {
    return Math.min(MOST_OVERRUN * target, this.#overrun.ms);
  }

  #targetMs(decodes: StepLoad): number {
    if (this.#options.kind === 'fixed') return FIXED_TOWER_MS;
    const { targetStepMs, loneStepMs = targetStepMs } = this.#options;
    return decodes.tokens === 0 ? loneStepMs : targetStepMs;
  }

  #chunkWithin(targetMs: number, decodes: StepLoad, start: number): number {
    const believed = EXTRAPOLATION * this.#largestMeasured - decodes.tokens;
    if (this.costModel.observations === 0) return believed;
    return Math.min(believed, Math.floor(this.costModel.chunkWithin(targetMs, decodes, start)));
  }
}
