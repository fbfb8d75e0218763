// Tokens of one UTC day. Tokens count on the day their request ends, as usage is recorded; what running
// requests may still use is reserved, and goes over midnight with them.

import { DAY_MS } from '../../store/usage-day.ts';

export class DailyBudget {
  #day = 0;
  #used = 0;
  #reserved = 0;

  /** Sets what the day of that time has used so far. */
  restore(usedTokens: number, nowMs: number): void {
    this.#turn(nowMs);
    this.#used = usedTokens;
  }

  /** 0 where it fits; until midnight where the day is used up; undefined where running requests hold the rest. */
  waitMs(tokens: number, limit: number, nowMs: number): number | undefined {
    this.#turn(nowMs);
    const wanted = Math.min(tokens, limit);
    if (this.#used + wanted > limit) return this.resetMs(nowMs);
    return this.#used + this.#reserved + wanted > limit ? undefined : 0;
  }

  reserve(tokens: number): void {
    this.#reserved += tokens;
  }

  settle(reservedTokens: number, usedTokens: number, nowMs: number): void {
    this.#turn(nowMs);
    this.#reserved -= reservedTokens;
    this.#used += usedTokens;
  }

  remaining(limit: number, nowMs: number): number {
    this.#turn(nowMs);
    return Math.max(0, limit - this.#used - this.#reserved);
  }

  resetMs(nowMs: number): number {
    return DAY_MS - (nowMs % DAY_MS);
  }

  #turn(nowMs: number): void {
    const day = Math.floor(nowMs / DAY_MS);
    if (day === this.#day) return;
    this.#day = day;
    this.#used = 0;
  }
}
