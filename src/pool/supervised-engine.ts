// An engine in a process of its own, kept alive: if the process dies, another one takes over every unfinished
// request with the tokens it already had. A client's stream pauses and goes on.

import { type ChildProcess, fork } from 'node:child_process';
import type { BackendName } from '../compute/choose-backend.ts';
import type { EngineStats, StepEvent } from '../engine/engine.ts';
import { drainingError, failedEvents } from '../engine/finish-events.ts';
import type { EngineSettings, FromEngine, ToEngine } from '../engine/protocol.ts';
import type { EngineRequest, RequestError, RequestEvent } from '../engine/request.ts';
import { RequestStreams } from '../engine/request-streams.ts';
import type { EngineHandle } from './engine-handle.ts';
import { DEATHS_TO_GIVE_UP, UnfinishedRequests } from './unfinished-requests.ts';

// The compiled file, from wherever this one runs.
const entry = new URL('../../dist/engine/process.js', import.meta.url);

const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 5_000;
/** Processes in a row that died before they were ready. */
const STARTS_TO_GIVE_UP = 5;

export class EngineStartError extends Error {
  override readonly name = 'EngineStartError';
}

export interface SupervisorOptions {
  readonly onProgress?: (share: number) => void;
  /** Told of deaths and restarts. */
  readonly onIncident?: (message: string) => void;
}

export interface ReadyEngine {
  readonly backend: BackendName;
  readonly notice?: string;
}

export class SupervisedEngine implements EngineHandle {
  readonly #settings: EngineSettings;
  readonly #options: SupervisorOptions;
  readonly #streams = new RequestStreams();
  readonly #unfinished = new UnfinishedRequests();
  readonly #statsWaiting = new Map<
    number,
    { resolve: (stats: EngineStats) => void; reject: (error: Error) => void }
  >();
  readonly #watchers = new Set<(event: StepEvent) => void>();
  readonly #whenDrained: (() => void)[] = [];
  /** Cancelled but not ended: a process may die, or start, before it hears of it. */
  readonly #cancelled = new Set<string>();
  #child: ChildProcess | undefined;
  #ready = false;
  #draining = false;
  #closed = false;
  #failure: string | undefined;
  #tickets = 0;
  #restarts = 0;
  #failedStarts = 0;
  #backoffMs = FIRST_BACKOFF_MS;

  private constructor(settings: EngineSettings, options: SupervisorOptions) {
    this.#settings = settings;
    this.#options = options;
  }

  /** Resolves when the model is loaded; rejects with EngineStartError where it cannot be. */
  static async start(
    settings: EngineSettings,
    options: SupervisorOptions = {},
  ): Promise<{ readonly engine: SupervisedEngine; readonly ready: ReadyEngine }> {
    const engine = new SupervisedEngine(settings, options);
    return { engine, ready: await engine.#launch() };
  }

  /** Of the process that serves now. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  get restarts(): number {
    return this.#restarts;
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const choices = request.resumed?.length ?? request.choices;
    const events = this.#streams.open(request.id, choices, () => this.cancel(request.id));
    this.#unfinished.add(request);
    const refusal = this.#refusal();
    if (refusal !== undefined) this.#fail(request, refusal);
    else this.#submitWaiting();
    return events;
  }

  cancel(id: string): void {
    if (!this.#unfinished.has(id)) return;
    this.#cancelled.add(id);
    if (this.#ready) this.#send({ kind: 'cancel', id });
  }

  stats(): Promise<EngineStats> {
    if (!this.#ready) return Promise.reject(new Error(this.#failure ?? 'the engine is restarting'));
    const ticket = ++this.#tickets;
    return new Promise((resolve, reject) => {
      this.#statsWaiting.set(ticket, { resolve, reject });
      this.#send({ kind: 'stats', ticket });
    });
  }

  watch(watcher: (event: StepEvent) => void): () => void {
    this.#watchers.add(watcher);
    if (this.#ready && this.#watchers.size === 1) this.#send({ kind: 'watch', on: true });
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0 && this.#ready) {
        this.#send({ kind: 'watch', on: false });
      }
    };
  }

  drain(): Promise<void> {
    this.#draining = true;
    if (this.#unfinished.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenDrained.push(resolve));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const request of this.#unfinished.all()) {
      this.#fail(request, { code: 'engine-failed', message: 'the model was unloaded' });
    }
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.kill('SIGKILL');
    await gone;
  }

  /** Starts a process and resolves when it has loaded the model. */
  #launch(): Promise<ReadyEngine> {
    const child = fork(entry, { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#child = child;
    return new Promise((resolve, reject) => {
      let settled = false;
      child.on('message', (message: FromEngine) => {
        if (message.kind === 'ready') {
          settled = true;
          this.#becomeReady();
          resolve(message);
        } else if (message.kind === 'unservable') {
          settled = true;
          reject(new EngineStartError(message.message));
        } else this.#hear(message);
      });
      this.#whenGone(child, (cause) => {
        if (!settled) reject(new Error(`the engine process ${cause} while loading the model`));
        else if (this.#child === child && !this.#closed && this.#ready) this.#died(cause);
      });
      child.send({ kind: 'load', settings: this.#settings } satisfies ToEngine);
    });
  }

  /** Calls back when the process has ended and everything it said has been heard. */
  #whenGone(child: ChildProcess, gone: (cause: string) => void): void {
    let cause: string | undefined;
    let silent = false;
    const settle = () => {
      if (cause !== undefined && silent) gone(cause);
    };
    child.once('exit', (code, signal) => {
      cause = signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
      settle();
    });
    child.once('disconnect', () => {
      silent = true;
      settle();
    });
    child.once('error', (error) => {
      cause = `could not run: ${error.message}`;
      silent = true;
      settle();
    });
  }

  #becomeReady(): void {
    this.#ready = true;
    this.#failedStarts = 0;
    if (this.#watchers.size > 0) this.#send({ kind: 'watch', on: true });
    this.#submitWaiting();
  }

  #hear(message: Exclude<FromEngine, { kind: 'ready' | 'unservable' }>): void {
    switch (message.kind) {
      case 'loading':
        this.#options.onProgress?.(message.share);
        break;
      case 'report':
        this.#deliver(message.events);
        break;
      case 'stats':
        this.#statsWaiting.get(message.ticket)?.resolve(message.stats);
        this.#statsWaiting.delete(message.ticket);
        break;
      case 'step':
        for (const watcher of this.#watchers) watcher(message.event);
        break;
    }
  }

  #deliver(events: readonly RequestEvent[]): void {
    this.#backoffMs = FIRST_BACKOFF_MS;
    this.#unfinished.note(events);
    for (const { id } of events) if (!this.#unfinished.has(id)) this.#cancelled.delete(id);
    this.#streams.deliver(events);
    this.#submitWaiting();
    if (this.#unfinished.size === 0) for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  #died(cause: string): void {
    this.#ready = false;
    this.#options.onIncident?.(`the engine process ${cause}; starting another`);
    for (const { reject } of this.#statsWaiting.values()) reject(new Error(`the engine process ${cause}`));
    this.#statsWaiting.clear();
    for (const request of this.#unfinished.die()) {
      const message = `${DEATHS_TO_GIVE_UP} engine processes in a row ${cause} on this request`;
      this.#report(request, { code: 'engine-failed', message });
    }
    this.#restart();
  }

  async #restart(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.#backoffMs));
    this.#backoffMs = Math.min(2 * this.#backoffMs, LONGEST_BACKOFF_MS);
    if (this.#closed) return;
    this.#restarts++;
    try {
      await this.#launch();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#options.onIncident?.(message);
      this.#failedStarts++;
      if (error instanceof EngineStartError || this.#failedStarts >= STARTS_TO_GIVE_UP) this.#giveUp(message);
      else await this.#restart();
    }
  }

  /** No process can be had: every request ends with the reason, and so does every later one. */
  #giveUp(message: string): void {
    this.#failure = message;
    for (const request of this.#unfinished.all()) this.#fail(request, { code: 'engine-failed', message });
  }

  #submitWaiting(): void {
    if (!this.#ready) return;
    for (const request of this.#unfinished.takeSubmittable()) {
      this.#send({ kind: 'submit', request });
      if (this.#cancelled.has(request.id)) this.#send({ kind: 'cancel', id: request.id });
    }
  }

  #refusal(): RequestError | undefined {
    if (this.#failure !== undefined) return { code: 'engine-failed', message: this.#failure };
    if (!this.#draining && !this.#closed) return undefined;
    return drainingError;
  }

  #fail(request: EngineRequest, error: RequestError): void {
    this.#unfinished.remove(request.id);
    this.#report(request, error);
  }

  /** Ends every open choice of a request with an error. */
  #report(request: EngineRequest, error: RequestError): void {
    this.#cancelled.delete(request.id);
    this.#streams.deliver(failedEvents(request, error));
    if (this.#unfinished.size === 0) for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  #send(message: ToEngine): void {
    // A process that has just died is noticed through its exit; what it did not hear is sent to the next.
    this.#child?.send(message, () => {});
  }
}
