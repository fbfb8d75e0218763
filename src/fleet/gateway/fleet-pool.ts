// The models of a fleet as a pool: whatever any worker has, loaded where it fits best when a request asks for it. The gateway
// tokenizes and detokenizes with copies of the models without their weights.

import type { EngineStats } from '../../engine/engine.ts';
import { type LocalModelOptions, openLocalModel } from '../../pool/local-model.ts';
import type { AcquireResult, ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Membership } from '../membership.ts';
import type { Answer, Question } from '../messages.ts';
import { freeMemory } from '../placement.ts';
import { AwayModels } from './away-models.ts';
import type { Dispatcher } from './dispatcher.ts';
import { FleetEngine } from './fleet-engine.ts';
import {
  entryOf,
  type FleetModel,
  findModel,
  fleetModels,
  knownLoad,
  mergeStats,
  type Replica,
} from './fleet-models.ts';
import type { PinnedContents } from './model-contents.ts';
import { TextCopies } from './text-copies.ts';

const ASK_MS = 5000;
/** Large models come from slow disks. */
const LOAD_MS = 900_000;
const STATS_MS = 1000;

export interface FleetPoolOptions {
  readonly membership: Membership;
  readonly dispatcher: Dispatcher;
  readonly ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;
  readonly folder: string;
  readonly nowMs: () => number;
  readonly pins: PinnedContents;
  /** What this gateway's settings say about the text of a model. */
  readonly textOf: (name: string) => Pick<LocalModelOptions, 'chatTemplate' | 'toolFormat'>;
}

type Refusal = Extract<AcquireResult, { ok: false }>;

interface Opened {
  readonly key: string;
  readonly served: ServedModel;
}

export class FleetPool implements ModelPool {
  readonly #options: FleetPoolOptions;
  readonly #away: AwayModels;
  readonly #texts: TextCopies;
  readonly #opened = new Map<string, Opened>();
  readonly #opening = new Map<string, Promise<ServedModel>>();
  readonly #loading = new Map<string, Promise<Refusal | undefined>>();
  #closed = false;

  constructor(options: FleetPoolOptions) {
    this.#options = options;
    this.#away = new AwayModels(options.membership, options.pins, options.nowMs);
    this.#texts = new TextCopies(options.folder, (node, question) => this.#ask(node, question));
  }

  get memoryBytes(): number {
    return this.#options.membership.workers().reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  }

  list(): readonly ModelEntry[] {
    const models = this.#models();
    const away = this.#away.models(models).map((model): ModelEntry => awayEntry(entryOf(model)));
    return [...models.map(entryOf), ...away];
  }

  /** Models that this gateway was asked for and that some worker has loaded. */
  loaded(): readonly ServedModel[] {
    return this.#models().flatMap((model) => {
      const opened = this.#opened.get(model.name);
      return opened?.key === model.key && loadedReplicas(model).length > 0 ? [opened.served] : [];
    });
  }

  async acquire(name: string | undefined): Promise<AcquireResult> {
    if (this.#closed) return { ok: false, failure: 'closing', message: 'the server is shutting down' };
    const models = this.#models();
    const model = findModel(models, name);
    if (model === undefined) return this.#unknown(name, models);
    const refusal = loadedReplicas(model).length > 0 ? undefined : await this.#loadOnce(model);
    if (refusal !== undefined) return refusal;
    try {
      const served = await this.#open(model);
      const release = (idleMs?: number) => {
        if (idleMs !== undefined) this.#keep(model.name, idleMs);
      };
      return { ok: true, lease: { model: served, release } };
    } catch (error) {
      const message = `the text of ${model.name} cannot be had: ${messageOf(error)}`;
      return { ok: false, failure: 'engine-died', message };
    }
  }

  load(name: string): Promise<AcquireResult> {
    return this.acquire(name);
  }

  /** Unloads it on every worker, unless one is busy with it. */
  async unload(name: string): Promise<boolean> {
    const model = findModel(this.#models(), name);
    if (model === undefined) return false;
    const answers = await Promise.all(
      loadedReplicas(model).map(({ status }) =>
        this.#ask(status.node, { kind: 'unload', model: model.name }),
      ),
    );
    return answers.every(({ kind }) => kind === 'done');
  }

  async close(limitMs: number): Promise<void> {
    this.#closed = true;
    const { dispatcher } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([dispatcher.idle(), limit]);
    clearTimeout(timer);
    dispatcher.close();
  }

  #models(): FleetModel[] {
    return fleetModels(this.#options.membership.workers(), this.#options.pins);
  }

  #unknown(name: string | undefined, models: readonly FleetModel[]): Refusal {
    const away = findModel(this.#away.models(models), name);
    if (away !== undefined) {
      const message = `no worker that has ${away.name} can be reached now`;
      return { ok: false, failure: 'away', message };
    }
    const known = models.map((one) => one.name);
    if (known.length === 0) {
      return { ok: false, failure: 'engine-died', message: 'no worker of the fleet can be reached now' };
    }
    return {
      ok: false,
      failure: 'unknown-model',
      message: `there is no model named ${name}; known are ${known.join(', ')}`,
    };
  }

  #loadOnce(model: FleetModel): Promise<Refusal | undefined> {
    const known = this.#loading.get(model.name);
    if (known !== undefined) return known;
    const loading = this.#load(model).finally(() => this.#loading.delete(model.name));
    this.#loading.set(model.name, loading);
    return loading;
  }

  /** Tries workers in order of free memory. */
  async #load(model: FleetModel): Promise<Refusal | undefined> {
    let reason = `no worker takes ${model.name} now`;
    for (const { status } of [...model.replicas].filter((one) => !one.status.draining).sort(byFreeMemory)) {
      const answer = await this.#ask(status.node, { kind: 'load', model: model.name }, LOAD_MS);
      if (answer.kind === 'done') return undefined;
      reason = answer.kind === 'refused' ? answer.reason : `${status.node} gave a wrong answer`;
    }
    return { ok: false, failure: 'no-memory', message: reason };
  }

  #keep(model: string, idleMs: number): void {
    const replicas = this.#models().find(({ name }) => name === model);
    for (const { status } of replicas === undefined ? [] : loadedReplicas(replicas)) {
      void this.#ask(status.node, { kind: 'keep', model, idleMs });
    }
  }

  #open(model: FleetModel): Promise<ServedModel> {
    const opened = this.#opened.get(model.name);
    if (opened?.key === model.key) return Promise.resolve(opened.served);
    const slot = `${model.name} ${model.key}`;
    const known = this.#opening.get(slot);
    if (known !== undefined) return known;
    const opening = this.#openText(model).finally(() => this.#opening.delete(slot));
    this.#opening.set(slot, opening);
    return opening;
  }

  async #openText(model: FleetModel): Promise<ServedModel> {
    const { name, key } = model;
    const path = await this.#texts.path(model);
    const base = model.replicas[0]?.model.adapterOf ?? name;
    const { spec, tokenizer, template, pooling, classifier, fillInMiddle, sampling, close } = openLocalModel(
      path,
      this.#options.textOf(base),
    );
    close();
    let blockCount = 1;
    const least = () => {
      const counts = loadedReplicas(this.#now(name)).flatMap(
        (replica) => replica.model.load?.totalBlocks ?? [],
      );
      if (counts.length > 0) blockCount = Math.min(...counts);
      return blockCount;
    };
    const engine = new FleetEngine(
      { name, key },
      this.#options.dispatcher,
      () => this.#stats(name),
      () => knownLoad(loadedReplicas(this.#now(name))),
    );
    const served: ServedModel = {
      name,
      path,
      content: key,
      spec,
      tokenizer,
      template,
      pooling,
      classifier,
      fillInMiddle,
      sampling,
      engine,
      /** The smallest of all replicas, so that any worker can take a request; the last known value where none is loaded. */
      get blockCount() {
        return least();
      },
      direct: false,
    };
    this.#opened.set(name, { key, served });
    return served;
  }

  #now(name: string): FleetModel {
    return this.#models().find((one) => one.name === name) ?? { name, key: '', replicas: [] };
  }

  async #stats(name: string): Promise<EngineStats> {
    const answers = await Promise.all(
      loadedReplicas(this.#now(name)).map(({ status }) =>
        this.#ask(status.node, { kind: 'stats', model: name }, STATS_MS),
      ),
    );
    const stats = answers.flatMap((answer) => (answer.kind === 'stats' ? [answer.stats] : []));
    if (stats.length === 0) throw new Error(`no worker that serves ${name} answers`);
    return mergeStats(stats);
  }

  async #ask(node: string, question: Question, timeoutMs = ASK_MS): Promise<Answer> {
    try {
      return await this.#options.ask(node, question, timeoutMs);
    } catch (error) {
      return { kind: 'refused', reason: `${node}: ${messageOf(error)}` };
    }
  }
}

function loadedReplicas({ replicas }: FleetModel): Replica[] {
  return replicas.filter(({ model }) => model.state === 'loaded');
}

function awayEntry({ memoryBytes: _, computedBy: __, ...entry }: ModelEntry): ModelEntry {
  return { ...entry, state: 'away', busy: 0 };
}

function byFreeMemory(a: Replica, b: Replica): number {
  return freeMemory(b.status) - freeMemory(a.status);
}
