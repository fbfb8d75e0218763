// Tokens of one UTC day. They count on the day their request ends, as usage is recorded; what running requests may still use
// is reserved, and passes midnight with them. What was used beyond a day's limit is carried over to the next day.

import { DAY_MS } from '../../store/usage-report.ts';

export class DailyBudget {
  #day: number | undefined;
  #used = 0;
  #reserved = 0;

  restore(usedTokens: number, nowMs: number): void {
    this.#day = dayOf(nowMs);
    this.#used = usedTokens;
  }

  /**
   * 0 where it fits, with as much as is left of the day where more is expected; until a midnight where too little is
   * left; undefined where running requests hold the rest.
   */
  waitMs(leastTokens: number, expectedTokens: number, limit: number, nowMs: number): number | undefined {
    const left = limit - this.used(limit, nowMs);
    if (left < leastTokens) return this.#freeMs(leastTokens, limit, nowMs);
    return Math.min(expectedTokens, left) > left - this.#reserved ? undefined : 0;
  }

  reserve(tokens: number): void {
    this.#reserved += tokens;
  }

  settle(reservedTokens: number, usedTokens: number, limit: number | undefined, nowMs: number): void {
    this.#turn(limit, nowMs);
    this.#reserved -= reservedTokens;
    this.#used += usedTokens;
  }

  used(limit: number, nowMs: number): number {
    this.#turn(limit, nowMs);
    return this.#used;
  }

  remaining(limit: number, nowMs: number): number {
    return Math.max(0, limit - this.used(limit, nowMs) - this.#reserved);
  }

  resetMs(nowMs: number): number {
    return DAY_MS - (nowMs % DAY_MS);
  }

  /** The time until the day that has this many left, if no more is used. */
  #freeMs(tokens: number, limit: number, nowMs: number): number {
    if (tokens > limit) return Number.POSITIVE_INFINITY;
    const days = Math.max(1, Math.ceil((this.#used + tokens) / limit) - 1);
    return this.resetMs(nowMs) + (days - 1) * DAY_MS;
  }

  /** A clock that was set back gives nothing; time continues from there. */
  #turn(limit: number | undefined, nowMs: number): void {
    const day = dayOf(nowMs);
    const days = day - (this.#day ?? day);
    this.#day = day;
    if (days > 0) this.#used = limit === undefined ? 0 : Math.max(0, this.#used - days * limit);
  }
}

/** How far back a restart looks for what is carried over. */
export const CARRY_OVER_DAYS = 7;

/** What the last of some days has used, with what those before, the oldest first, have carried over to it. */
export function usedOfDay(tokensByDay: readonly number[], limit: number | undefined): number {
  const today = tokensByDay.at(-1) ?? 0;
  if (limit === undefined) return today;
  const past = tokensByDay.slice(0, -1);
  return today + past.reduce((carried, used) => Math.max(0, carried + used - limit), 0);
}

function dayOf(timeMs: number): number {
  return Math.floor(timeMs / DAY_MS);
}
