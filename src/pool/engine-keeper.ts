// Keeps an engine running: starts a process, watches it, starts another when it is gone. Where the system gives no
// process, the engine runs in the server's own, without batching, until a process can be had again. Knows nothing
// of requests: it says when an engine is ready and when it is lost.

import { setTimeout as sleep } from 'node:timers/promises';
import type { BackendName } from '../compute/backend.ts';
import type { EngineStats } from '../engine/engine.ts';
import type { EngineSnapshot } from '../engine/live/snapshot.ts';
import type { EngineSettings, FromEngine, ToEngine } from '../engine/protocol.ts';
import type { SlotResult } from '../engine/slots/slot-action.ts';
import type { StepReport } from '../engine/step-report.ts';
import type { ModelIdentity } from '../engine/tiers/block-keys.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import {
  type EngineHost,
  EngineInServer,
  type EngineProcess,
  type HostListener,
  spawnEngine,
} from './engine-host.ts';
import { Watchdog } from './watchdog.ts';

/** For an engine to write down what it keeps, and for its answer. */
const SAVE_MS = 10_000;
const ANSWER_MS = 2_000;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 5_000;
/** Processes in a row that died while loading: at the first start, and later, when requests depend on it. */
const TRIES_AT_START = 3;
const TRIES_AT_RESTART = 5;
/** How soon a process is tried for again while the engine runs in the server. */
const FIRST_RETURN_MS = 1_000;
const LONGEST_RETURN_MS = 60_000;

export interface KeeperOptions {
  /** An engine that owes something and hangs for longer is replaced; undefined waits for ever. */
  readonly stepTimeoutMs?: number | undefined;
  readonly onProgress?: (share: number) => void;
  /** Called at deaths and restarts. */
  readonly onIncident?: (message: string) => void;
  /** From now on the engine runs in the server, without batching. */
  readonly onFallback?: (reason: string) => void;
  /** None can be had any more. */
  readonly onFailed?: () => void;
  /** From now on it has a process again. */
  readonly onReturn?: () => void;
}

interface KeeperListener {
  /** An engine is ready that knows of no request. */
  ready(): void;
  report(report: StepReport): void;
  /** The request was not taken: the tables of its grammar must be sent again. */
  unknownGrammar(id: string, key: string): void;
  stats(ticket: number, stats: EngineStats): void;
  snapshot(ticket: number, view: EngineSnapshot): void;
  slot(ticket: number, result: SlotResult): void;
  /** The engine is there no more, another one comes; `died` where it was not put aside in good order. */
  lost(cause: string, died: boolean): void;
  /** None can be had. */
  failed(message: string): void;
  /** Whether it owes anything: only then can it hang. */
  busy(): boolean;
}

interface ReadyEngine {
  readonly backend: BackendName;
  /** The GPU, where one computes; or that the addon came with the package. */
  readonly device?: string;
  readonly notice?: string;
}

export type StartResult =
  | { readonly ok: true; readonly ready: ReadyEngine }
  /** `unservable`: the model itself is to blame, and trying again would end the same way. */
  | { readonly ok: false; readonly failure: 'unservable' | 'died' | 'closed'; readonly message: string };

type LoadOutcome =
  | { readonly kind: 'ready'; readonly ready: ReadyEngine }
  | { readonly kind: 'unservable'; readonly message: string }
  | { readonly kind: 'gone'; readonly cause: string };

const closedResult: StartResult = { ok: false, failure: 'closed', message: 'the model was unloaded' };

export class EngineKeeper {
  readonly #settings: EngineSettings;
  readonly #options: KeeperOptions;
  readonly #listener: KeeperListener;
  readonly #closing = new AbortController();
  /** Starts, restarts and returns under way: nothing of them outlives `close`. */
  readonly #tasks = new Set<Promise<unknown>>();
  #host: EngineHost | undefined;
  #settleLoad: ((outcome: LoadOutcome) => void) | undefined;
  #watchdog: Watchdog | undefined;
  #hungBy: string | undefined;
  /** Steps, and pieces of images, when it was last asked. */
  #lastSteps = 0;
  #ready = false;
  #inServer = false;
  #threads: number | undefined;
  #vocabulary: VocabularyTables | undefined;
  #identity: Extract<ToEngine, { kind: 'identity' }> | undefined;
  #whenEnded: (() => void) | undefined;
  #allowed: number | undefined;
  /** What the last engine was sent when it began to load. */
  #sentAllowed: number | undefined;
  #backoffMs = FIRST_BACKOFF_MS;
  #restarts = 0;

  constructor(settings: EngineSettings, options: KeeperOptions, listener: KeeperListener) {
    this.#settings = settings;
    this.#options = options;
    this.#listener = listener;
    this.#allowed = settings.engine.blockLimit;
  }

  get pid(): number | undefined {
    return this.#host?.pid;
  }

  get isReady(): boolean {
    return this.#ready;
  }

  /** Whether it runs without batching, by choice or for want of a process. */
  get direct(): boolean {
    return this.#inServer || this.#settings.engine.direct === true;
  }

  get restarts(): number {
    return this.#restarts;
  }

  start(): Promise<StartResult> {
    return this.#track(this.#bringUp(TRIES_AT_START));
  }

  /** Lost where no engine is ready: the next one knows of nothing. */
  send(message: ToEngine): void {
    if (this.#ready) this.#host?.send(message);
  }

  /** Holds for later engines too. */
  allow(blocks: number): void {
    this.#allowed = blocks;
    this.send({ kind: 'allow', blocks });
  }

  /** Holds for later engines too. */
  useThreads(count: number): void {
    if (count === this.#threads) return;
    this.#threads = count;
    this.send({ kind: 'threads', count });
  }

  /** Holds for later engines too. */
  setVocabulary(vocabulary: VocabularyTables): void {
    if (this.#vocabulary !== undefined) return;
    this.#vocabulary = vocabulary;
    this.send({ kind: 'vocabulary', tables: vocabulary });
  }

  /** Holds for later engines too. */
  identify(name: string, identity: ModelIdentity): void {
    this.#identity = { kind: 'identity', name, identity };
    this.send(this.#identity);
  }

  /** Of the engine that serves; a later one finds nothing of the tenant. */
  removeTenant(tenant: string): void {
    this.send({ kind: 'remove-tenant', tenant });
  }

  /** What the engine keeps in memory alone is written down first, where it is kept at all. */
  async #endInOrder(): Promise<void> {
    if (this.#settings.tiers?.disk === undefined || !this.#ready) return;
    const ended = new Promise<void>((resolve) => {
      this.#whenEnded = resolve;
    });
    this.send({ kind: 'end', withinMs: SAVE_MS });
    const limit = new AbortController();
    const tooLong = sleep(SAVE_MS + ANSWER_MS, undefined, { signal: limit.signal }).catch(() => {});
    await Promise.race([ended, tooLong]);
    limit.abort();
  }

  /** Resolves when nothing is left that was started. */
  async close(): Promise<void> {
    await this.#endInOrder();
    this.#closing.abort();
    this.#ready = false;
    this.#watchdog?.stop();
    await this.#host?.kill();
    this.#settleLoad?.({ kind: 'gone', cause: 'was closed' });
    await Promise.all(this.#tasks);
    await this.#host?.kill();
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Starts engines until one is ready; the first in `process` where there is one. */
  async #bringUp(tries: number, process?: EngineProcess): Promise<StartResult> {
    let outcome = process === undefined ? await this.#launch() : await this.#load(process);
    for (let left = tries - 1; outcome.kind === 'gone' && left > 0 && !this.#closed; left--) {
      this.#options.onIncident?.(`the engine process ${outcome.cause} while loading the model; trying again`);
      await this.#pause();
      outcome = await this.#launch();
    }
    if (this.#closed) return closedResult;
    switch (outcome.kind) {
      case 'ready':
        return { ok: true, ready: outcome.ready };
      case 'unservable':
        return { ok: false, failure: 'unservable', message: outcome.message };
      case 'gone': {
        const message = `the engine process ${outcome.cause} while loading the model, ${tries} times in a row`;
        return { ok: false, failure: 'died', message };
      }
    }
  }

  async #launch(): Promise<LoadOutcome> {
    if (this.#closed) return { kind: 'gone', cause: 'was closed' };
    const listener = this.#listenerOfHost();
    const spawned = await spawnEngine(listener);
    if (spawned.ok) {
      if (this.#inServer) this.#options.onReturn?.();
      this.#inServer = false;
      return this.#load(listener.host(spawned.process));
    }
    if (this.#closed) return { kind: 'gone', cause: 'was closed' };
    if (!this.#inServer) this.#options.onFallback?.(spawned.reason);
    this.#inServer = true;
    return this.#load(listener.host(new EngineInServer(listener)));
  }

  async #load(host: EngineHost): Promise<LoadOutcome> {
    this.#host = host;
    if (this.#closed) return { kind: 'gone', cause: 'was closed' };
    if (host.pid !== undefined) this.#watch();
    this.#sentAllowed = this.#allowed;
    const limit = this.#allowed === undefined ? {} : { blockLimit: this.#allowed };
    const engine = { ...this.#settings.engine, ...limit };
    return new Promise((resolve) => {
      this.#settleLoad = (outcome) => {
        this.#settleLoad = undefined;
        resolve(outcome);
      };
      host.send({ kind: 'load', settings: { ...this.#settings, engine } });
    });
  }

  /** What a host says counts while it is the one that serves. */
  #listenerOfHost(): HostListener & { host<Host extends EngineHost>(host: Host): Host } {
    let own: EngineHost | undefined;
    const isCurrent = () => own !== undefined && this.#host === own;
    return {
      host: (host) => {
        own = host;
        return host;
      },
      hear: (message) => {
        if (isCurrent()) this.#hear(message);
      },
      gone: (cause) => {
        if (isCurrent()) this.#gone(cause);
      },
    };
  }

  #hear(message: FromEngine): void {
    switch (message.kind) {
      case 'loading':
        this.#watchdog?.advanced();
        this.#options.onProgress?.(message.share);
        break;
      case 'ready':
        this.#watchdog?.advanced();
        this.#becomeReady();
        this.#settleLoad?.({ kind: 'ready', ready: message });
        break;
      case 'unservable': {
        const host = this.#host;
        this.#host = undefined;
        this.#watchdog?.stop();
        this.#track(host?.kill() ?? Promise.resolve());
        this.#settleLoad?.(message);
        break;
      }
      case 'report':
        this.#backoffMs = FIRST_BACKOFF_MS;
        if (message.report.step === undefined) this.#watchdog?.heard();
        else this.#watchdog?.advanced();
        this.#listener.report(message.report);
        break;
      case 'warning':
        this.#watchdog?.heard();
        this.#options.onIncident?.(message.message);
        break;
      case 'ended':
        this.#whenEnded?.();
        break;
      case 'unknown-grammar':
        this.#watchdog?.heard();
        this.#listener.unknownGrammar(message.id, message.key);
        break;
      case 'stats':
        this.#noteProgress(message.stats);
        this.#listener.stats(message.ticket, message.stats);
        break;
      case 'snapshot':
        this.#listener.snapshot(message.ticket, message.view);
        break;
      case 'slot':
        this.#watchdog?.heard();
        this.#listener.slot(message.ticket, message.result);
        break;
    }
  }

  /** Sequences that wait, for blocks for example, advance no step, and nothing is wrong with that. */
  #noteProgress({ steps, running, images }: EngineStats): void {
    const done = steps + (images?.pieces ?? 0);
    const mayRest = running.length === 0 && images?.busy !== true;
    if (done !== this.#lastSteps || mayRest) this.#watchdog?.advanced();
    else this.#watchdog?.heard();
    this.#lastSteps = done;
  }

  #gone(end: string): void {
    const cause = this.#hungBy ?? end;
    this.#hungBy = undefined;
    this.#watchdog?.stop();
    this.#host = undefined;
    this.#settleLoad?.({ kind: 'gone', cause });
    this.#whenEnded?.();
    if (!this.#ready || this.#closed) return;
    this.#ready = false;
    this.#options.onIncident?.(`the engine process ${cause}; starting another`);
    this.#listener.lost(cause, true);
    this.#track(this.#restart());
  }

  #watch(): void {
    this.#watchdog?.stop();
    const { stepTimeoutMs } = this.#options;
    if (stepTimeoutMs === undefined) return;
    this.#lastSteps = 0;
    this.#watchdog = new Watchdog(stepTimeoutMs, {
      busy: () => !this.#ready || this.#listener.busy(),
      ask: () => this.send({ kind: 'stats', ticket: 0 }),
      hung: (cause) => {
        this.#hungBy = `${cause} and was ended`;
        void this.#host?.kill();
      },
    });
  }

  #becomeReady(): void {
    this.#ready = true;
    if (this.#allowed !== undefined && this.#allowed !== this.#sentAllowed) this.allow(this.#allowed);
    if (this.#threads !== undefined) this.send({ kind: 'threads', count: this.#threads });
    if (this.#vocabulary !== undefined) this.send({ kind: 'vocabulary', tables: this.#vocabulary });
    if (this.#identity !== undefined) this.send(this.#identity);
    this.#listener.ready();
    if (this.#inServer) this.#track(this.#returnToProcess());
  }

  async #restart(process?: EngineProcess): Promise<void> {
    if (process === undefined) await this.#pause();
    if (this.#closed) return;
    this.#restarts++;
    const result = await this.#bringUp(TRIES_AT_RESTART, process);
    if (result.ok) {
      if (process !== undefined && !this.#inServer) this.#options.onReturn?.();
    } else if (result.failure !== 'closed') {
      this.#options.onIncident?.(result.message);
      this.#listener.failed(result.message);
      this.#options.onFailed?.();
    }
  }

  /** Tries for a process, more and more seldom, while the engine runs in the server; then moves into it. */
  async #returnToProcess(): Promise<void> {
    const home = this.#host;
    for (let waitMs = FIRST_RETURN_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_RETURN_MS)) {
      await this.#wait(waitMs);
      if (this.#closed || this.#host !== home) return;
      const listener = this.#listenerOfHost();
      const spawned = await spawnEngine(listener);
      if (!spawned.ok) continue;
      const process = listener.host(spawned.process);
      if (this.#closed || this.#host !== home) return void (await process.kill());
      this.#ready = false;
      this.#inServer = false;
      this.#host = process;
      this.#listener.lost('moves into a process of its own', false);
      // Two copies of the weights might not fit: the old engine goes before the new one loads.
      await home?.kill();
      if (this.#host === process) return this.#restart(process);
      // It died meanwhile, before it was ready: there is no engine, as before.
      this.#inServer = true;
      return this.#restart();
    }
  }

  #pause(): Promise<void> {
    const waitMs = this.#backoffMs;
    this.#backoffMs = Math.min(2 * waitMs, LONGEST_BACKOFF_MS);
    return this.#wait(waitMs);
  }

  /** Ends early where the engine is closed. */
  async #wait(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => {});
  }

  #track<Result>(task: Promise<Result>): Promise<Result> {
    this.#tasks.add(task);
    const forget = () => this.#tasks.delete(task);
    task.then(forget, forget);
    return task;
  }
}
