// The models of a fleet by name, kept up to date as statuses of workers come: who has which files, and by which of them a name
// goes.

import type { Membership } from '../membership.ts';
import type { NodeStatus } from '../messages.ts';
import type { PinnedContents } from './model-contents.ts';
import { ModelReplicas } from './model-replicas.ts';

const unpinned: PinnedContents = new Map();

export class ModelTable {
  readonly #pins: PinnedContents;
  /** By name, then by key. */
  readonly #contents = new Map<string, Map<string, ModelReplicas>>();
  /** By node: the last status that is counted. */
  readonly #counted = new Map<string, NodeStatus>();
  /** Undefined after a change of what goes by a name, or of the default. */
  #models: readonly ModelReplicas[] | undefined;
  #byName = new Map<string, ModelReplicas>();

  /** Files that are not the pinned ones are left out. */
  constructor(pins: PinnedContents = unpinned) {
    this.#pins = pins;
  }

  /** Of the workers that are there. */
  static of(membership: Pick<Membership, 'onStatus' | 'onChange'>, pins?: PinnedContents): ModelTable {
    const table = new ModelTable(pins);
    membership.onStatus((status) => status.roles.includes('worker') && table.set(status));
    membership.onChange((change, { node }) => change === 'left' && table.delete(node));
    return table;
  }

  set(status: NodeStatus): void {
    const before = this.#counted.get(status.node);
    this.#counted.set(status.node, status);
    for (const model of before?.models ?? []) {
      const isThere = status.models.some(({ name, key }) => name === model.name && key === model.key);
      if (!isThere) this.#remove(status.node, model.name, model.key);
    }
    for (const model of status.models) {
      if (!model.key.startsWith(this.#pins.get(model.name) ?? '')) continue;
      const replicas = this.#replicasOf(model.name, model.key);
      const { count, serving, votes } = replicas;
      replicas.set(status, model);
      if (replicas.count !== count || replicas.serving !== serving || replicas.votes !== votes)
        this.#models = undefined;
    }
  }

  delete(node: string): void {
    for (const { name, key } of this.#counted.get(node)?.models ?? []) this.#remove(node, name, key);
    this.#counted.delete(node);
  }

  /** The default model comes first: the one that most workers call their default. */
  get models(): readonly ModelReplicas[] {
    this.#models ??= this.#ordered();
    return this.#models;
  }

  /** A name, an alias, or undefined for the default. */
  find(name: string | undefined): ModelReplicas | undefined {
    const { models } = this;
    if (name === undefined) return models[0];
    return this.#byName.get(name) ?? models.find((one) => one.hasAlias(name));
  }

  /** Those with these files, whether or not the name goes by them now. */
  content(name: string, key: string): ModelReplicas | undefined {
    return this.#contents.get(name)?.get(key);
  }

  #replicasOf(name: string, key: string): ModelReplicas {
    const byKey = this.#contents.get(name) ?? new Map<string, ModelReplicas>();
    this.#contents.set(name, byKey);
    const replicas = byKey.get(key) ?? new ModelReplicas(name, key);
    byKey.set(key, replicas);
    return replicas;
  }

  #remove(node: string, name: string, key: string): void {
    const byKey = this.#contents.get(name);
    const replicas = byKey?.get(key);
    if (byKey === undefined || replicas === undefined) return;
    replicas.delete(node);
    this.#models = undefined;
    if (replicas.count === 0) byKey.delete(key);
    if (byKey.size === 0) this.#contents.delete(name);
  }

  #ordered(): readonly ModelReplicas[] {
    const named = [...this.#contents.values()].map((byKey) => {
      const all = [...byKey.values()];
      return { chosen: mostReplicas(all), votes: all.reduce((sum, { votes }) => sum + votes, 0) };
    });
    named.sort((a, b) => b.votes - a.votes || (a.chosen.name < b.chosen.name ? -1 : 1));
    const models = named.map(({ chosen }) => chosen);
    this.#byName = new Map(models.map((one) => [one.name, one]));
    return models;
  }
}

/**
 * Where two models have the same name, the one on more workers goes by it; those that are drained, as in a rollout, count where all
 * are.
 */
function mostReplicas(all: readonly ModelReplicas[]): ModelReplicas {
  return all.reduce((a, b) => {
    const difference = b.serving - a.serving || b.count - a.count;
    if (difference === 0) return a.key < b.key ? a : b;
    return difference < 0 ? a : b;
  });
}
