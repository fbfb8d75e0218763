// The models of a fleet by name, with their replicas, from the status of its workers.

import type { EngineStats } from '../../engine/engine.ts';
import type { EngineLoad } from '../../engine/engine-client.ts';
import type { ModelEntry, ModelState } from '../../pool/model-pool.ts';
import type { ModelStatus, NodeStatus } from '../messages.ts';
import type { PinnedContents } from './model-contents.ts';

export interface Replica {
  readonly status: NodeStatus;
  readonly model: ModelStatus;
}

export interface FleetModel {
  readonly name: string;
  readonly key: string;
  /** Workers that have this name with this key. */
  readonly replicas: readonly Replica[];
}

const unpinned: PinnedContents = new Map();

/** The default model comes first: the one that most workers call their default. Files that are not the pinned ones are left out. */
export function fleetModels(workers: readonly NodeStatus[], pins: PinnedContents = unpinned): FleetModel[] {
  const replicas = workers
    .flatMap((status) => status.models.map((model) => ({ status, model })))
    .filter(({ model }) => model.key.startsWith(pins.get(model.name) ?? ''));
  const names = [...new Set(replicas.map(({ model }) => model.name))];
  const votes = (name: string) =>
    replicas.filter(({ model }) => model.name === name && model.isDefault).length;
  return names
    .sort((a, b) => votes(b) - votes(a) || (a < b ? -1 : 1))
    .map((name) =>
      oneModel(
        name,
        replicas.filter(({ model }) => model.name === name),
      ),
    );
}

/** Where two models have the same name, the one on more workers goes by it. */
function oneModel(name: string, replicas: readonly Replica[]): FleetModel {
  const count = (key: string) => replicas.filter(({ model }) => model.key === key).length;
  const keys = [...new Set(replicas.map(({ model }) => model.key))];
  const [key = ''] = keys.sort((a, b) => count(b) - count(a) || (a < b ? -1 : 1));
  return { name, key, replicas: replicas.filter(({ model }) => model.key === key) };
}

/** A name, an alias, or undefined for the default. */
export function findModel(models: readonly FleetModel[], name: string | undefined): FleetModel | undefined {
  if (name === undefined) return models[0];
  return (
    models.find((one) => one.name === name) ??
    models.find(({ replicas }) => replicas.some(({ model }) => model.aliases.includes(name)))
  );
}

const order: readonly ModelState[] = ['loaded', 'loading', 'waiting', 'unloaded', 'failed', 'away'];

export function entryOf({ name, replicas }: FleetModel): ModelEntry {
  const models = replicas.map(({ model }) => model);
  const state = order.find((one) => models.some((model) => model.state === one)) ?? 'unloaded';
  const memoryBytes = models.reduce((sum, model) => sum + (model.memoryBytes ?? 0), 0);
  const [first] = models;
  const computedBy = [...new Set(models.flatMap((model) => model.computedBy ?? []))].join('; ');
  return {
    name,
    aliases: [...new Set(models.flatMap(({ aliases }) => aliases))],
    path: replicas.map(({ status }) => status.node).join(', '),
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

/** Of these replicas together, from their statuses; undefined where there is none. */
export function knownLoad(replicas: readonly Replica[]): EngineLoad | undefined {
  const loads = replicas.flatMap(({ model }) => model.load ?? []);
  if (loads.length === 0) return undefined;
  const sum = (of: (load: (typeof loads)[number]) => number) => loads.reduce((all, one) => all + of(one), 0);
  const cached = sum(({ work }) => work?.blocks.cached ?? 0);
  return {
    queues: ([0, 1, 2] as const).map((priority) => ({
      priority,
      waiting: sum(({ waiting }) => waiting[priority]),
    })),
    running: sum(({ running }) => running),
    blocks: {
      cached,
      free: Math.max(0, sum(({ freeBlocks }) => freeBlocks) - cached),
      used: sum(({ totalBlocks, freeBlocks, work }) => work?.blocks.used ?? totalBlocks - freeBlocks),
    },
  };
}

export function mergeStats(all: readonly EngineStats[]): EngineStats {
  return all.reduce((a, b) => addNumbers(a, b) as EngineStats);
}

/** Adds numbers, adds `queues` element by element, and concatenates other arrays; takes anything else from the first. */
function addNumbers(a: unknown, b: unknown, key = ''): unknown {
  // A name, not an amount.
  if (key === 'priority') return a;
  if (key === 'oldestMs') return Math.max(a as number, b as number);
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (Array.isArray(a) && Array.isArray(b)) {
    return key === 'queues' ? a.map((one, i) => addNumbers(one, b[i])) : [...a, ...b];
  }
  if (isRecord(a) && isRecord(b)) {
    return Object.fromEntries(
      Object.entries(a).map(([name, value]) => [name, addNumbers(value, b[name], name)]),
    );
  }
  return a;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
