// The models of a fleet as its workers tell of them: by name, with all their places. Pure.

import type { ModelEntry, ModelState } from '../../pool/model-pool.ts';
import type { ModelStatus, NodeStatus } from '../messages.ts';

export interface Place {
  readonly status: NodeStatus;
  readonly model: ModelStatus;
}

export interface FleetModel {
  readonly name: string;
  /** Of its weights. */
  readonly key: string;
  /** Workers that have exactly this one. */
  readonly places: readonly Place[];
}

/** By name. The default one first: the one that most workers call theirs. */
export function fleetModels(workers: readonly NodeStatus[]): FleetModel[] {
  const places = workers.flatMap((status) => status.models.map((model) => ({ status, model })));
  const names = [...new Set(places.map(({ model }) => model.name))];
  const votes = (name: string) => places.filter(({ model }) => model.name === name && model.isDefault).length;
  return names
    .sort((a, b) => votes(b) - votes(a) || (a < b ? -1 : 1))
    .map((name) =>
      oneModel(
        name,
        places.filter(({ model }) => model.name === name),
      ),
    );
}

/** Where two models have one name, the one that more workers have goes by it. */
function oneModel(name: string, places: readonly Place[]): FleetModel {
  const count = (key: string) => places.filter(({ model }) => model.key === key).length;
  const keys = [...new Set(places.map(({ model }) => model.key))];
  const [key = ''] = keys.sort((a, b) => count(b) - count(a) || (a < b ? -1 : 1));
  return {
    name,
    key,
    places: places.filter(({ model }) => model.key === key),
  };
}

/** A name, an alias, or undefined for the default. */
export function findModel(models: readonly FleetModel[], name: string | undefined): FleetModel | undefined {
  if (name === undefined) return models[0];
  return (
    models.find((one) => one.name === name) ??
    models.find(({ places }) => places.some(({ model }) => model.aliases.includes(name)))
  );
}

const order: readonly ModelState[] = ['loaded', 'loading', 'waiting', 'unloaded', 'failed'];

export function entryOf({ name, places }: FleetModel): ModelEntry {
  const models = places.map(({ model }) => model);
  const state = order.find((one) => models.some((model) => model.state === one)) ?? 'unloaded';
  const memoryBytes = models.reduce((sum, model) => sum + (model.memoryBytes ?? 0), 0);
  const [first] = models;
  const computedBy = [...new Set(models.flatMap((model) => model.computedBy ?? []))].join('; ');
  return {
    name,
    aliases: [...new Set(models.flatMap(({ aliases }) => aliases))],
    path: places.map(({ status }) => status.node).join(', '),
    ...(first?.adapterOf === undefined ? {} : { adapterOf: first.adapterOf }),
    state,
    pinned: models.some(({ pinned }) => pinned),
    createdSeconds: first?.createdSeconds ?? 0,
    ...(memoryBytes > 0 ? { memoryBytes } : {}),
    ...(computedBy === '' ? {} : { computedBy }),
    busy: models.reduce(
      (sum, { load }) => sum + (load === undefined ? 0 : load.running + sumOf(load.waiting)),
      0,
    ),
  };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
