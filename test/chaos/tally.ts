// How many requests ended how.

import type { Outcome } from './outcome.ts';

export class Tally {
  readonly outcomes: Record<string, number> = {};
  /** The most that were seen: how hard requests had to press each other for blocks. */
  preemptions = 0;

  count(name: string): void {
    this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
  }

  get total(): number {
    return Object.values(this.outcomes).reduce((sum, count) => sum + count, 0);
  }
}

export function nameOf(outcome: Outcome): string {
  if (outcome.kind !== 'error') return outcome.kind;
  return `${outcome.status} ${outcome.code}${outcome.inStream ? ' in the stream' : ''}`;
}
