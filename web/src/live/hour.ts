// The last hour in points of five seconds: the server sends what was before this page, and ticks continue it.

import type { HistoryPoint, LiveTick } from '../../../src/server/live/live-event.ts';

const SLOT_SECONDS = 5;
const HOUR_SECONDS = 3600;

type Values = (number | null)[];

export class Hour {
  readonly times: number[] = [];
  readonly promptRate: Values = [];
  readonly decodeRate: Values = [];
  readonly firstToken = { p50: [] as Values, p95: [] as Values, p99: [] as Values };
  readonly betweenTokens = { p50: [] as Values, p95: [] as Values, p99: [] as Values };
  #slot: number | undefined;
  #prompt = 0;
  #decode = 0;

  /** Replaces what this page knows: the server knows more. */
  begin(points: readonly HistoryPoint[]): void {
    for (const values of [this.times, ...this.#lines()]) values.length = 0;
    for (const point of points)
      this.#add(point.atMs / 1000, point, point.promptTokens, point.generatedTokens);
    this.#slot = undefined;
  }

  add(tick: LiveTick): void {
    const seconds = tick.atMs / 1000;
    const slot = Math.floor(seconds / SLOT_SECONDS);
    if (this.#slot !== undefined && slot !== this.#slot) {
      this.#add((this.#slot + 1) * SLOT_SECONDS, tick, this.#prompt, this.#decode);
    }
    if (slot !== this.#slot) this.#prompt = this.#decode = 0;
    this.#slot = slot;
    for (const { promptTokens, generatedTokens } of tick.engines) {
      this.#prompt += promptTokens;
      this.#decode += generatedTokens;
    }
    let stale = 0;
    while ((this.times[stale] ?? seconds) < seconds - HOUR_SECONDS) stale++;
    if (stale > 0) for (const values of [this.times, ...this.#lines()]) values.splice(0, stale);
  }

  get hasTokens(): boolean {
    return [this.promptRate, this.decodeRate].some((values) => values.some(Boolean));
  }

  #add(
    seconds: number,
    measured: Pick<HistoryPoint, 'firstToken' | 'betweenTokens'>,
    prompt: number,
    decode: number,
  ): void {
    const last = this.times.at(-1);
    if (last !== undefined && seconds <= last) return;
    // Nothing happened between two points that are far apart.
    if (last !== undefined && seconds - last > 1.5 * SLOT_SECONDS) {
      this.#push(last + SLOT_SECONDS, {}, 0, 0);
      if (seconds - last > 3 * SLOT_SECONDS) this.#push(seconds - SLOT_SECONDS, {}, 0, 0);
    }
    this.#push(seconds, measured, prompt / SLOT_SECONDS, decode / SLOT_SECONDS);
  }

  #push(
    seconds: number,
    measured: Pick<HistoryPoint, 'firstToken' | 'betweenTokens'>,
    promptRate: number,
    decodeRate: number,
  ): void {
    this.times.push(seconds);
    this.promptRate.push(promptRate);
    this.decodeRate.push(decodeRate);
    for (const name of ['p50', 'p95', 'p99'] as const) {
      this.firstToken[name].push(measured.firstToken?.[name] ?? null);
      this.betweenTokens[name].push(measured.betweenTokens?.[name] ?? null);
    }
  }

  #lines(): Values[] {
    return [
      this.promptRate,
      this.decodeRate,
      ...Object.values(this.firstToken),
      ...Object.values(this.betweenTokens),
    ];
  }
}
