// One model of a fleet: the workers that have these files by this name. Whatever requests ask of it is counted as statuses come,
// so that no answer looks at all workers.

import type { EngineLoad } from '../../engine/engine-client.ts';
import type { ModelEntry, ModelState } from '../../pool/model-pool.ts';
import type { ModelStatus, NodeStatus } from '../messages.ts';
import { Tally } from './tally.ts';

export interface Replica {
  readonly status: NodeStatus;
  readonly model: ModelStatus;
}

export interface FleetModel {
  readonly name: string;
  readonly key: string;
  /** What most of its workers read images with; undefined where none does. */
  readonly vision: string | undefined;
  /** Workers that have this name with this key. */
  readonly replicas: readonly Replica[];
}

/** The first of these that a replica is in is that of the model. */
const order: readonly ModelState[] = ['loaded', 'loading', 'waiting', 'unloaded', 'failed', 'away'];

export class ModelReplicas implements FleetModel {
  readonly name: string;
  readonly key: string;
  readonly #replicas = new Map<string, Replica>();
  readonly #states = new Tally<ModelState>();
  readonly #aliases = new Tally<string>();
  readonly #computedBy = new Tally<string>();
  readonly #visions = new Tally<string>();
  readonly #load = new LoadSums();
  #votes = 0;
  #pinned = 0;
  #memoryBytes = 0;
  #draining = 0;
  /** Undefined after a change. */
  #entry: ModelEntry | undefined;
  /** The names of its workers; undefined after one has come or gone. */
  #path: string | undefined;

  constructor(name: string, key: string) {
    this.name = name;
    this.key = key;
  }

  get replicas(): readonly Replica[] {
    return [...this.#replicas.values()];
  }

  get vision(): string | undefined {
    const visions = this.#visions.values().sort();
    return visions.reduce<string | undefined>(
      (most, one) => (most === undefined || this.#visions.of(one) > this.#visions.of(most) ? one : most),
      undefined,
    );
  }

  get count(): number {
    return this.#replicas.size;
  }

  /** How many workers take new requests for it. */
  get serving(): number {
    return this.#replicas.size - this.#draining;
  }

  /** How many workers call it their default. */
  get votes(): number {
    return this.#votes;
  }

  get isLoaded(): boolean {
    return this.#states.has('loaded');
  }

  get loaded(): readonly Replica[] {
    return this.replicas.filter(({ model }) => model.state === 'loaded');
  }

  hasAlias(name: string): boolean {
    return this.#aliases.has(name);
  }

  get(node: string): Replica | undefined {
    return this.#replicas.get(node);
  }

  /** In the order in which they came, and no further than is asked for. */
  each(): Iterable<Replica> {
    return this.#replicas.values();
  }

  set(status: NodeStatus, model: ModelStatus): void {
    const before = this.#replicas.get(status.node);
    this.#replicas.set(status.node, { status, model });
    this.#draining += Number(status.draining) - Number(before?.status.draining ?? false);
    if (before?.model === model) return;
    if (before === undefined) this.#path = undefined;
    else this.#count(before.model, -1);
    this.#count(model, 1);
  }

  delete(node: string): void {
    const before = this.#replicas.get(node);
    if (before === undefined) return;
    this.#replicas.delete(node);
    this.#draining -= Number(before.status.draining);
    this.#path = undefined;
    this.#count(before.model, -1);
  }

  /** Of those that are loaded together; undefined where there is none. */
  get knownLoad(): EngineLoad | undefined {
    return this.#load.known;
  }

  /** The fewest blocks of any that is loaded. */
  get leastBlocks(): number | undefined {
    return this.#load.leastBlocks;
  }

  get entry(): ModelEntry {
    this.#entry ??= this.#newEntry();
    return this.#entry;
  }

  #newEntry(): ModelEntry {
    const [first] = this.#replicas.values();
    const computedBy = this.#computedBy.values().join('; ');
    this.#path ??= [...this.#replicas.keys()].join(', ');
    return {
      name: this.name,
      aliases: this.#aliases.values(),
      path: this.#path,
      ...(first?.model.adapterOf === undefined ? {} : { adapterOf: first.model.adapterOf }),
      state: order.find((state) => this.#states.has(state)) ?? 'unloaded',
      pinned: this.#pinned > 0,
      createdSeconds: first?.model.createdSeconds ?? 0,
      ...(this.vision === undefined ? {} : { sees: true }),
      ...(this.#memoryBytes > 0 ? { memoryBytes: this.#memoryBytes } : {}),
      ...(computedBy === '' ? {} : { computedBy }),
      busy: this.#load.busy,
    };
  }

  #count(model: ModelStatus, by: 1 | -1): void {
    const { state, aliases, computedBy, vision, isDefault, pinned, memoryBytes = 0 } = model;
    const change = by === 1 ? 'add' : 'remove';
    this.#states[change](state);
    for (const alias of aliases) this.#aliases[change](alias);
    if (vision !== undefined) this.#visions[change](vision);
    if (computedBy !== undefined) this.#computedBy[change](computedBy);
    this.#votes += by * Number(isDefault);
    this.#pinned += by * Number(pinned);
    this.#memoryBytes += by * memoryBytes;
    this.#load.count(model, by);
    this.#entry = undefined;
  }
}

/** How busy the workers are that have it loaded. */
class LoadSums {
  readonly #waiting: [number, number, number] = [0, 0, 0];
  readonly #blocks = new Tally<number>();
  #count = 0;
  #running = 0;
  #cached = 0;
  #free = 0;
  #used = 0;

  count({ state, load }: ModelStatus, by: 1 | -1): void {
    if (state !== 'loaded' || load === undefined) return;
    const { waiting, running, work, freeBlocks, totalBlocks } = load;
    for (const priority of [0, 1, 2] as const) this.#waiting[priority] += by * waiting[priority];
    this.#count += by;
    this.#running += by * running;
    this.#cached += by * (work?.blocks.cached ?? 0);
    this.#free += by * freeBlocks;
    this.#used += by * (work?.blocks.used ?? totalBlocks - freeBlocks);
    this.#blocks[by === 1 ? 'add' : 'remove'](totalBlocks);
  }

  get busy(): number {
    return this.#waiting.reduce((sum, count) => sum + count, this.#running);
  }

  get leastBlocks(): number | undefined {
    return this.#count === 0 ? undefined : Math.min(...this.#blocks.values());
  }

  get known(): EngineLoad | undefined {
    if (this.#count === 0) return undefined;
    return {
      queues: ([0, 1, 2] as const).map((priority) => ({ priority, waiting: this.#waiting[priority] })),
      running: this.#running,
      blocks: { cached: this.#cached, free: Math.max(0, this.#free - this.#cached), used: this.#used },
    };
  }
}
