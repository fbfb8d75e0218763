// Which worker gets a request: of those that have its model loaded, and where it has begun compute the same bits, the one that
// is expected to be through with it first.

import type { ModelStatus, NodeStatus } from '../messages.ts';
import type { ChosenWorker, OpenAnswer } from './open-answer.ts';

export interface WorkerChoice {
  choose(open: OpenAnswer, workers: readonly NodeStatus[], nowMs: number): ChosenWorker | undefined;
  /** It ended, or its worker is gone. */
  released(open: OpenAnswer): void;
}

/** Workers that could take it, with what they say of its model. */
export function candidates(
  open: OpenAnswer,
  workers: readonly NodeStatus[],
  nowMs: number,
): { readonly status: NodeStatus; readonly model: ModelStatus }[] {
  const { model, determinism } = open;
  const able = workers.flatMap((status) => {
    const own = status.models.find(({ name, key }) => name === model.name && key === model.key);
    if (own === undefined || status.draining || own.state !== 'loaded') return [];
    return determinism === undefined || own.determinism === determinism ? [{ status, model: own }] : [];
  });
  const willing = able.filter(({ status }) => !open.avoids(status.node, nowMs));
  // Rather somebody who gave it back than nobody.
  return willing.length > 0 ? willing : able;
}
