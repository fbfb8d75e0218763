// The models of a fleet as a pool: whatever any worker has, loaded where it fits best when a request asks for it. The gateway
// tokenizes and detokenizes with copies of the models without their weights.

import type { EngineStats } from '../../engine/engine.ts';
import type { LocalModel } from '../../pool/local-model.ts';
import type { AcquireResult, ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { Clock, Timer } from '../../runtime/clock.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Membership } from '../membership.ts';
import type { Answer, Question } from '../messages.ts';
import { freeMemory } from '../placement.ts';
import type { TextPaths } from '../text-side.ts';
import { AwayModels } from './away-models.ts';
import type { Dispatcher } from './dispatcher.ts';
import { FleetEngine } from './fleet-engine.ts';
import { mergeStats } from './merged-stats.ts';
import type { PinnedContents } from './model-contents.ts';
import type { FleetModel, ModelReplicas, Replica } from './model-replicas.ts';
import type { ModelTable } from './model-table.ts';
import { TextCopies } from './text-copies.ts';

const ASK_MS = 5000;
/** Large models come from slow disks. */
const LOAD_MS = 900_000;
const STATS_MS = 1000;

export interface FleetPoolOptions {
  readonly membership: Membership;
  readonly models: ModelTable;
  readonly dispatcher: Dispatcher;
  /** The message system has been away for longer than a worker may be silent. */
  readonly isCutOff: () => boolean;
  readonly ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;
  readonly folder: string;
  readonly nowMs: () => number;
  readonly clock: Clock;
  readonly pins: PinnedContents;
  /** Opens a model without its weights, as this gateway's settings want the text of this name; `images`: with its tower, too. */
  readonly openText: (paths: TextPaths, name: string, images: boolean) => LocalModel;
}

type Refusal = Extract<AcquireResult, { ok: false }>;

interface Opened extends Pick<FleetModel, 'key' | 'vision'> {
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
    const { models, isCutOff } = this.#options;
    const away = this.#away.models(models).map(({ entry }) => awayEntry(entry));
    // What ran on at workers is not known: nothing new can be given to them.
    const known = models.models.map(({ entry }) => (isCutOff() ? awayEntry(entry) : entry));
    return [...known, ...away];
  }

  /** Models that this gateway was asked for and that some worker has loaded. */
  loaded(): readonly ServedModel[] {
    return this.#options.models.models.flatMap((model) => {
      const opened = this.#opened.get(model.name);
      return opened?.key === model.key && model.isLoaded ? [opened.served] : [];
    });
  }

  async acquire(name: string | undefined): Promise<AcquireResult> {
    if (this.#closed) return { ok: false, failure: 'closing', message: 'the server is shutting down' };
    const model = this.#options.models.find(name);
    if (model === undefined) return this.#unknown(name);
    if (this.#options.isCutOff()) {
      return { ok: false, failure: 'away', message: 'the message system of the fleet cannot be reached' };
    }
    const refusal = model.isLoaded ? undefined : await this.#loadOnce(model);
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
    const model = this.#options.models.find(name);
    if (model === undefined) return false;
    const answers = await Promise.all(
      model.loaded.map(({ status }) => this.#ask(status.node, { kind: 'unload', model: model.name })),
    );
    return answers.every(({ kind }) => kind === 'done');
  }

  async close(limitMs: number): Promise<void> {
    this.#closed = true;
    const { dispatcher, clock } = this.#options;
    let timer: Timer | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = clock.after(limitMs, resolve);
    });
    await Promise.race([dispatcher.idle(), limit]);
    timer?.end();
    dispatcher.close();
  }

  #unknown(name: string | undefined): Refusal {
    const { models } = this.#options;
    const departed = this.#away.models(models);
    const away =
      name === undefined
        ? departed[0]
        : (departed.find((one) => one.name === name) ?? departed.find((one) => one.hasAlias(name)));
    if (away !== undefined) {
      const message = `no worker that has ${away.name} can be reached now`;
      return { ok: false, failure: 'away', message };
    }
    const known = models.models.map((one) => one.name);
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
    const able = model.replicas.filter((one) => !one.status.draining).sort(byFreeMemory);
    // Those that read its images come first.
    const sees = (one: Replica) => Number(one.model.vision === model.vision);
    for (const { status } of able.sort((a, b) => sees(b) - sees(a))) {
      const answer = await this.#ask(status.node, { kind: 'load', model: model.name }, LOAD_MS);
      if (answer.kind === 'done') return undefined;
      reason = answer.kind === 'refused' ? answer.reason : `${status.node} gave a wrong answer`;
    }
    return { ok: false, failure: 'no-memory', message: reason };
  }

  #keep(model: string, idleMs: number): void {
    for (const { status } of this.#now(model)?.loaded ?? []) {
      void this.#ask(status.node, { kind: 'keep', model, idleMs });
    }
  }

  #open(model: FleetModel): Promise<ServedModel> {
    const opened = this.#opened.get(model.name);
    const { key, vision } = model;
    if (opened?.key === key && opened.vision === vision) return Promise.resolve(opened.served);
    const slot = `${model.name} ${key} ${vision}`;
    const known = this.#opening.get(slot);
    if (known !== undefined) return known;
    const opening = this.#openText(model).finally(() => this.#opening.delete(slot));
    this.#opening.set(slot, opening);
    return opening;
  }

  async #openText(model: FleetModel): Promise<ServedModel> {
    // As they are now: statuses go on coming.
    const { name, key, vision } = model;
    const paths = await this.#texts.paths({ name, key, vision, replicas: model.replicas });
    const base = model.replicas[0]?.model.adapterOf ?? name;
    const opened = this.#options.openText(paths, base, vision !== undefined);
    const { spec, tokenizer, template, pooling, classifier, fillInMiddle, sampling } = opened;
    opened.close();
    let blockCount = 1;
    const least = () => {
      blockCount = this.#now(name)?.leastBlocks ?? blockCount;
      return blockCount;
    };
    const engine = new FleetEngine(
      { name, key, vision },
      this.#options.dispatcher,
      () => this.#stats(name),
      () => this.#now(name)?.knownLoad,
    );
    const served: ServedModel = {
      name,
      path: paths.path,
      content: key,
      takesPictures: true,
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
    this.#opened.set(name, { key, vision, served });
    return served;
  }

  #now(name: string): ModelReplicas | undefined {
    const model = this.#options.models.find(name);
    return model?.name === name ? model : undefined;
  }

  async #stats(name: string): Promise<EngineStats> {
    const answers = await Promise.all(
      (this.#now(name)?.loaded ?? []).map(({ status }) =>
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

function awayEntry({ memoryBytes: _, computedBy: __, ...entry }: ModelEntry): ModelEntry {
  return { ...entry, state: 'away', busy: 0 };
}

function byFreeMemory(a: Replica, b: Replica): number {
  return freeMemory(b.status) - freeMemory(a.status);
}
