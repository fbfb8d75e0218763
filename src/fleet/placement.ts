// Which workers should have a model loaded, by what is desired. Every worker finds the same out of the same statuses, so that
// nobody has to decide for the others. Pure.

import type { ModelStatus, NodeStatus } from './messages.ts';

export interface Placement {
  readonly model: string;
  /** On so many workers at least. */
  readonly replicas: number;
  /** On these before any other. */
  readonly nodes: readonly string[];
}

interface Candidate {
  readonly node: string;
  readonly pinned: boolean;
  readonly model: ModelStatus;
  readonly fits: boolean;
}

/** As many as are wanted, as far as there are workers that can. */
export function placedOn({ model, replicas, nodes }: Placement, workers: readonly NodeStatus[]): string[] {
  return workers
    .filter(({ draining }) => !draining)
    .flatMap((status) => {
      const own = status.models.find(({ name }) => name === model);
      return own === undefined || own.state === 'failed' ? [] : [candidateOf(status, own, nodes)];
    })
    .filter(({ fits }) => fits)
    .sort((a, b) => order(a, b, model))
    .slice(0, replicas)
    .map(({ node }) => node);
}

/** Of a worker, in bytes. */
export function freeMemory({ memoryBytes: all, models }: NodeStatus): number {
  return models.reduce((left, { memoryBytes = 0 }) => left - memoryBytes, all);
}

function candidateOf(status: NodeStatus, model: ModelStatus, nodes: readonly string[]): Candidate {
  const isThere = model.state === 'loaded' || model.state === 'loading';
  const fits = isThere || model.weightBytes <= freeMemory(status);
  return { node: status.node, pinned: nodes.includes(status.node), model, fits };
}

/** Those that were named, then those that have it, then by lot. */
function order(a: Candidate, b: Candidate, model: string): number {
  return (
    Number(b.pinned) - Number(a.pinned) ||
    Number(isLoaded(b)) - Number(isLoaded(a)) ||
    lot(b.node, model) - lot(a.node, model) ||
    (a.node < b.node ? -1 : 1)
  );
}

function isLoaded({ model }: Candidate): boolean {
  return model.state === 'loaded' || model.state === 'loading';
}

/** Differs by node and model, the same for everybody. */
function lot(node: string, model: string): number {
  let hash = 0x811c9dc5;
  for (const letter of `${node} ${model}`)
    hash = Math.imul(hash ^ (letter.codePointAt(0) as number), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
