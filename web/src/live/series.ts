// Figures of the last two minutes, a value for each tick.

import type { LiveTick } from '../../../src/server/live/live-event.ts';

export const SERIES_SECONDS = 120;
/** A tick is too short for a rate. */
const SMOOTH_MS = 1000;

type Values = (number | null)[];

interface Amounts {
  readonly atMs: number;
  readonly lengthMs: number;
  readonly steps: number;
  readonly prompt: number;
  readonly decode: number;
}

export class Series {
  readonly times: number[] = [];
  readonly promptRate: Values = [];
  readonly decodeRate: Values = [];
  readonly stepRate: Values = [];
  readonly batchPrompt: Values = [];
  readonly batchDecode: Values = [];
  readonly firstToken = { p50: [] as Values, p95: [] as Values, p99: [] as Values };
  readonly betweenTokens = { p50: [] as Values, p95: [] as Values, p99: [] as Values };
  #recent: Amounts[] = [];
  #lastMs: number | undefined;

  add(tick: LiveTick): void {
    const { atMs, engines } = tick;
    const total = (of: (engine: (typeof engines)[number]) => number) =>
      engines.reduce((sum, engine) => sum + of(engine), 0);
    const amounts: Amounts = {
      atMs,
      lengthMs: this.#lastMs === undefined ? 0 : atMs - this.#lastMs,
      steps: total(({ steps }) => steps),
      prompt: total(({ promptTokens }) => promptTokens),
      decode: total(({ generatedTokens }) => generatedTokens),
    };
    this.#lastMs = atMs;
    // The first one after a gap covers an unknown time.
    if (amounts.lengthMs > 0) this.#recent.push(amounts);
    this.#recent = this.#recent.filter((one) => one.atMs > atMs - SMOOTH_MS);
    const seconds = this.#sum(({ lengthMs }) => lengthMs) / 1000;
    const perSecond = (of: (one: Amounts) => number) => (seconds === 0 ? null : this.#sum(of) / seconds);
    const steps = this.#sum((one) => one.steps);
    const perStep = (of: (one: Amounts) => number) => (steps === 0 ? 0 : this.#sum(of) / steps);
    this.times.push(atMs / 1000);
    this.promptRate.push(perSecond(({ prompt }) => prompt));
    this.decodeRate.push(perSecond(({ decode }) => decode));
    this.stepRate.push(perSecond((one) => one.steps));
    this.batchPrompt.push(perStep(({ prompt }) => prompt));
    this.batchDecode.push(perStep(({ decode }) => decode));
    for (const name of ['p50', 'p95', 'p99'] as const) {
      this.firstToken[name].push(tick.firstToken?.[name] ?? null);
      this.betweenTokens[name].push(tick.betweenTokens?.[name] ?? null);
    }
    this.#forget(atMs / 1000 - SERIES_SECONDS);
  }

  get hasTokens(): boolean {
    return [this.promptRate, this.decodeRate].some((values) => values.some(Boolean));
  }

  breakOff(): void {
    this.#recent = [];
    const last = this.times.at(-1);
    this.#lastMs = undefined;
    if (last === undefined) return;
    this.times.push(last + 0.001);
    for (const values of this.#lines()) values.push(null);
  }

  #sum(of: (one: Amounts) => number): number {
    return this.#recent.reduce((sum, one) => sum + of(one), 0);
  }

  #forget(before: number): void {
    let stale = 0;
    while ((this.times[stale] ?? before) < before) stale++;
    if (stale === 0) return;
    this.times.splice(0, stale);
    for (const values of this.#lines()) values.splice(0, stale);
  }

  #lines(): Values[] {
    return [
      this.promptRate,
      this.decodeRate,
      this.stepRate,
      this.batchPrompt,
      this.batchDecode,
      ...Object.values(this.firstToken),
      ...Object.values(this.betweenTokens),
    ];
  }
}
