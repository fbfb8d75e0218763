// Chooses by load alone: the worker with the fewest tokens still to compute. Knows nothing of prefixes.

import type { NodeStatus } from '../messages.ts';
import type { OpenAnswer } from './open-answer.ts';
import { type ChosenWorker, candidates, type WorkerChoice } from './worker-choice.ts';

export class LeastLoaded implements WorkerChoice {
  /** What this gateway has given, by worker. */
  readonly #given = new Map<string, Set<OpenAnswer>>();

  choose(open: OpenAnswer, workers: readonly NodeStatus[], nowMs: number): ChosenWorker | undefined {
    const able = candidates(open, workers, nowMs).map(({ status, model }) => ({
      status,
      determinism: model.determinism,
      load: this.#given.get(status.node)?.size ?? 0,
    }));
    const [best] = able.sort((a, b) => a.load - b.load);
    if (best === undefined) return undefined;
    const given = this.#given.get(best.status.node) ?? new Set();
    this.#given.set(best.status.node, given.add(open));
    return best;
  }

  released(open: OpenAnswer): void {
    if (open.worker !== undefined) this.#given.get(open.worker.node)?.delete(open);
  }
}
