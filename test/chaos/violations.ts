// What must not have happened, each with enough to make it happen again.

import type { Timeline } from './timeline.ts';

export interface Violation {
  readonly kind: string;
  readonly at: string;
  readonly detail: string;
  /** What was asked, and how. */
  readonly request?: unknown;
  readonly recent: readonly string[];
}

/** Of each kind; more of the same are only counted. */
const KEPT_OF_A_KIND = 5;

export class Violations {
  readonly #timeline: Timeline;
  readonly #say: (line: string) => void;
  readonly #kept: Violation[] = [];
  readonly counts: Record<string, number> = {};

  constructor(timeline: Timeline, say: (line: string) => void) {
    this.#timeline = timeline;
    this.#say = say;
  }

  add(kind: string, detail: string, request?: unknown): void {
    const count = (this.counts[kind] ?? 0) + 1;
    this.counts[kind] = count;
    if (count > KEPT_OF_A_KIND) return;
    this.#say(`VIOLATION ${kind}: ${detail.slice(0, 300)}`);
    this.#kept.push({
      kind,
      at: this.#timeline.clock(),
      detail,
      ...(request === undefined ? {} : { request }),
      recent: this.#timeline.recent(),
    });
  }

  get list(): readonly Violation[] {
    return this.#kept;
  }

  get total(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }
}
