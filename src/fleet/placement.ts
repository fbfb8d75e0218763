// On how many workers each model should be loaded, which these are, and which workers drain. The message system stores what is
// desired. Every worker derives the same placement from the same statuses, so none has to decide for the others.

import type { KV } from '@nats-io/kv';
import type { ModelStatus, NodeStatus } from './messages.ts';
import { fromWire, toWire } from './wire.ts';

export interface Placement {
  readonly model: string;
  readonly replicas: number;
  readonly nodes: readonly string[];
}

interface Candidate {
  readonly node: string;
  readonly pinned: boolean;
  readonly model: ModelStatus;
  readonly fits: boolean;
}

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

export function freeMemory({ memoryBytes: all, models }: NodeStatus): number {
  return models.reduce((left, { memoryBytes = 0 }) => left - memoryBytes, all);
}

function candidateOf(status: NodeStatus, model: ModelStatus, nodes: readonly string[]): Candidate {
  const isThere = model.state === 'loaded' || model.state === 'loading';
  const fits = isThere || model.weightBytes <= freeMemory(status);
  return { node: status.node, pinned: nodes.includes(status.node), model, fits };
}

/** Named nodes first, then those that have it loaded, then by hash. */
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

/** The same at every node. */
function lot(node: string, model: string): number {
  let hash = 0x811c9dc5;
  for (const letter of `${node} ${model}`)
    hash = Math.imul(hash ^ (letter.codePointAt(0) as number), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

const PLACEMENTS = 'placements';
const DRAINED = 'drained';
/** Concurrent writers retry. */
const TRIES = 5;

type Values = Pick<KV, 'get' | 'put'>;

/** For workers, which may not change it. */
export class DesiredView {
  readonly #values: Pick<Values, 'get'>;

  constructor(values: Pick<Values, 'get'>) {
    this.#values = values;
  }

  async placements(): Promise<readonly Placement[]> {
    return (await this.read<Placement>(PLACEMENTS)).items;
  }

  /** Workers that should take nothing new, whether they are there or not. */
  async drained(): Promise<readonly string[]> {
    return (await this.read<string>(DRAINED)).items;
  }

  protected async read<Item>(
    key: string,
  ): Promise<{ readonly items: readonly Item[]; readonly revision: number }> {
    const entry = await this.#values.get(key);
    if (entry === null || entry.operation !== 'PUT') return { items: [], revision: entry?.revision ?? 0 };
    return { items: fromWire(entry.value) as Item[], revision: entry.revision };
  }
}

export class DesiredState extends DesiredView {
  readonly #values: Values;

  constructor(values: Values) {
    super(values);
    this.#values = values;
  }

  /** Replaces what was desired of this model; 0 replicas removes it. */
  async place(placement: Placement): Promise<void> {
    await this.#change<Placement>(PLACEMENTS, (placements) => {
      const others = placements.filter(({ model }) => model !== placement.model);
      return placement.replicas === 0 ? others : [...others, placement];
    });
  }

  async drain(node: string, on: boolean): Promise<void> {
    await this.#change<string>(DRAINED, (nodes) => {
      const others = nodes.filter((one) => one !== node);
      return on ? [...others, node] : others;
    });
  }

  async #change<Item>(key: string, change: (items: readonly Item[]) => readonly Item[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { items, revision } = await this.read<Item>(key);
      try {
        await this.#values.put(key, toWire(change(items)), { previousSeq: revision });
        return;
      } catch (error) {
        if (attempt === TRIES) throw error;
      }
    }
  }
}
