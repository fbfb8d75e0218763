// The last hour of this server, in slots of five seconds, so that a page that is opened now has charts. A slot is closed by what
// comes after it: where nothing happens, nothing is stored, and no timer runs.

import type { HistoryPoint } from './live-event.ts';
import type { SlidingPercentiles } from './recent-measurements.ts';

const SLOT_MS = 5000;
const SLOTS = 720;

interface Measured {
  readonly firstToken: SlidingPercentiles;
  readonly betweenTokens: SlidingPercentiles;
}

interface Clocks {
  readonly nowMs: () => number;
  /** Since 1970. */
  readonly wallMs: () => number;
}

export class History {
  readonly #measured: Measured;
  readonly #clocks: Clocks;
  readonly #points: HistoryPoint[] = [];
  #slot = -1;
  #promptTokens = 0;
  #generatedTokens = 0;

  constructor(measured: Measured, clocks: Clocks = { nowMs: () => performance.now(), wallMs: Date.now }) {
    this.#measured = measured;
    this.#clocks = clocks;
  }

  /** Called before the token is measured, so that the slot before it has only its own. */
  token(): void {
    this.#begin();
    this.#generatedTokens++;
  }

  prompt(tokens: number): void {
    this.#begin();
    this.#promptTokens += tokens;
  }

  /** The oldest first; the slot that has not ended is not among them. */
  points(): readonly HistoryPoint[] {
    if (this.#slotNow() !== this.#slot) this.#close();
    const oldestMs = this.#clocks.wallMs() - SLOTS * SLOT_MS;
    return this.#points.filter(({ atMs }) => atMs >= oldestMs);
  }

  #begin(): void {
    const slot = this.#slotNow();
    if (slot === this.#slot) return;
    this.#close();
    this.#slot = slot;
  }

  #close(): void {
    if (this.#slot < 0) return;
    const { nowMs, wallMs } = this.#clocks;
    const endMs = (this.#slot + 1) * SLOT_MS;
    const firstToken = this.#measured.firstToken.read(endMs - 1);
    const betweenTokens = this.#measured.betweenTokens.read(endMs - 1);
    this.#points.push({
      // By the clock of now, however it was set since.
      atMs: Math.round(wallMs() - (nowMs() - endMs)),
      promptTokens: this.#promptTokens,
      generatedTokens: this.#generatedTokens,
      ...(firstToken === undefined ? {} : { firstToken }),
      ...(betweenTokens === undefined ? {} : { betweenTokens }),
    });
    if (this.#points.length > SLOTS) this.#points.shift();
    this.#slot = -1;
    this.#promptTokens = 0;
    this.#generatedTokens = 0;
  }

  #slotNow(): number {
    return Math.floor(this.#clocks.nowMs() / SLOT_MS);
  }
}
