// What an engine owes to its clients, though the engine itself may come and go: when one is lost, the next takes over
// every unfinished request with the tokens it already had. A client's stream pauses and goes on.

import type { EngineStats } from '../engine/engine.ts';
import type { EngineView } from '../engine/live/engine-view.ts';
import { type LossListener, Onlookers, type PrefixListener, type StepFollower } from '../engine/onlookers.ts';
import type { EngineSettings, ToEngine } from '../engine/protocol.ts';
import type { EngineRequest, RequestError, RequestEvent } from '../engine/request.ts';
import { drainingError, failedEvent, unloadedError } from '../engine/request-errors.ts';
import { RequestStreams } from '../engine/request-streams.ts';
import type { BlockDemand } from '../engine/scheduler/stats.ts';
import type { StepEvent, StepReport } from '../engine/step-report.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { EngineHandle, PrefixCount } from './engine-handle.ts';
import { EngineKeeper, type KeeperOptions, type StartResult } from './engine-keeper.ts';
import { DEATHS_TO_GIVE_UP, UnfinishedRequests } from './unfinished-requests.ts';

interface Waiter<Answer> {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

export class SupervisedEngine implements EngineHandle {
  readonly #keeper: EngineKeeper;
  readonly #streams = new RequestStreams();
  readonly #unfinished = new UnfinishedRequests();
  readonly #onlookers = new Onlookers((on) => this.#keeper.send({ kind: 'watch', on }));
  readonly #statsWaiting = new Map<number, Waiter<EngineStats>>();
  readonly #viewsWaiting = new Map<number, Waiter<EngineView>>();
  readonly #whenDrained: (() => void)[] = [];
  /** Cancelled but not ended: an engine may be lost, or start, before it hears of it. */
  readonly #cancelled = new Set<string>();
  #draining = false;
  #closed: Promise<void> | undefined;
  #failure: string | undefined;
  #tickets = 0;

  constructor(settings: EngineSettings, options: KeeperOptions = {}) {
    this.#keeper = new EngineKeeper(settings, options, {
      ready: () => this.#ready(),
      report: (report) => this.#hear(report),
      stats: (ticket, stats) => answer(this.#statsWaiting, ticket, stats),
      view: (ticket, view) => answer(this.#viewsWaiting, ticket, view),
      lost: (cause, died) => this.#lost(cause, died),
      failed: (message) => this.#giveUp(message),
      busy: () => this.#unfinished.hasSubmitted,
    });
  }

  /** Of the process that serves now; undefined where it is the server's own. */
  get pid(): number | undefined {
    return this.#keeper.pid;
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  get restarts(): number {
    return this.#keeper.restarts;
  }

  get starts(): number {
    return 1 + this.#keeper.restarts;
  }

  /** Whether it runs without batching, by choice or for want of a process. */
  get direct(): boolean {
    return this.#keeper.direct;
  }

  /** When its oldest unfinished request came. */
  get oldestMs(): number | undefined {
    return this.#unfinished.oldestMs;
  }

  /** Resolves when the model is loaded, or cannot be. */
  start(): Promise<StartResult> {
    return this.#keeper.start();
  }

  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const events = this.#streams.open(request.id, () => this.cancel(request.id));
    this.#unfinished.add(request);
    const refusal = this.#refusal();
    if (refusal !== undefined) this.#fail(request, refusal);
    else this.#submitWaiting();
    return events;
  }

  cancel(id: string): void {
    if (!this.#unfinished.has(id)) return;
    this.#cancelled.add(id);
    this.#keeper.send({ kind: 'cancel', id });
  }

  stats(): Promise<EngineStats> {
    return this.#ask(this.#statsWaiting, (ticket) => ({ kind: 'stats', ticket }));
  }

  look(): Promise<EngineView> {
    return this.#ask(this.#viewsWaiting, (ticket) => ({ kind: 'look', ticket }));
  }

  lookAway(): void {
    this.#keeper.send({ kind: 'look-away' });
  }

  onLost(listener: LossListener): () => void {
    return this.#onlookers.onLost(listener);
  }

  onPrefixes(listener: PrefixListener): PrefixCount {
    const stop = this.#onlookers.onPrefixes(listener);
    const recount = () => this.#keeper.send({ kind: 'journal', on: true });
    const end = () => {
      stop();
      if (!this.#onlookers.counted) this.#keeper.send({ kind: 'journal', on: false });
    };
    recount();
    return { recount, end };
  }

  follow(listener: StepFollower): () => void {
    return this.#onlookers.follow(listener);
  }

  watch(watcher: (event: StepEvent) => void): () => void {
    return this.#onlookers.watch(watcher);
  }

  learn(vocabulary: VocabularyTables): void {
    this.#keeper.learn(vocabulary);
  }

  allow(blocks: number): void {
    this.#keeper.allow(blocks);
  }

  /** How many threads may compute; at most as many as its settings say. */
  useThreads(count: number): void {
    this.#keeper.useThreads(count);
  }

  onBlocks(listener: (demand: BlockDemand) => void): () => void {
    return this.#onlookers.onBlocks(listener);
  }

  drain(): Promise<void> {
    this.#draining = true;
    if (this.#unfinished.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenDrained.push(resolve));
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#failure ??= unloadedError.message;
    for (const request of this.#unfinished.all()) this.#fail(request, unloadedError);
    this.#refuseAnswers(unloadedError.message);
    await this.#keeper.close();
  }

  #ask<Answer>(waiting: Map<number, Waiter<Answer>>, ask: (ticket: number) => ToEngine): Promise<Answer> {
    if (!this.#keeper.isReady) return Promise.reject(new Error(this.#failure ?? 'the engine is restarting'));
    const ticket = ++this.#tickets;
    return new Promise((resolve, reject) => {
      waiting.set(ticket, { resolve, reject });
      this.#keeper.send(ask(ticket));
    });
  }

  #ready(): void {
    if (this.#onlookers.watched) this.#keeper.send({ kind: 'watch', on: true });
    if (this.#onlookers.counted) this.#keeper.send({ kind: 'journal', on: true });
    this.#submitWaiting();
  }

  #hear(report: StepReport): void {
    const { events } = report;
    this.#unfinished.note(events);
    for (const { id } of events) if (!this.#unfinished.has(id)) this.#cancelled.delete(id);
    this.#streams.deliver(events);
    this.#onlookers.tell(report);
    this.#submitWaiting();
    this.#noteDrained();
  }

  #lost(cause: string, died: boolean): void {
    this.#refuseAnswers(`the engine process ${cause}`);
    this.#onlookers.lost(died);
    if (!died) this.#unfinished.takeBack();
    for (const request of died ? this.#unfinished.die() : []) {
      const message = `${DEATHS_TO_GIVE_UP} engine processes in a row ended on this request; the last ${cause}`;
      this.#deliver(request, { code: 'engine-failed', message });
    }
  }

  /** No engine can be had: every request ends with the reason, and so does every later one. */
  #giveUp(message: string): void {
    this.#failure = message;
    for (const request of this.#unfinished.all()) this.#fail(request, { code: 'engine-failed', message });
  }

  #submitWaiting(): void {
    if (!this.#keeper.isReady) return;
    for (const request of this.#unfinished.takeSubmittable()) {
      this.#keeper.send({ kind: 'submit', request });
      if (this.#cancelled.has(request.id)) this.#keeper.send({ kind: 'cancel', id: request.id });
    }
  }

  #refusal(): RequestError | undefined {
    if (this.#draining || this.#closed !== undefined) return drainingError;
    return this.#failure === undefined ? undefined : { code: 'engine-failed', message: this.#failure };
  }

  #fail(request: EngineRequest, error: RequestError): void {
    this.#unfinished.remove(request.id);
    this.#deliver(request, error);
  }

  #deliver(request: EngineRequest, error: RequestError): void {
    this.#cancelled.delete(request.id);
    this.#streams.deliver([failedEvent(request, error)]);
    this.#noteDrained();
  }

  #noteDrained(): void {
    if (this.#unfinished.size === 0) for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  #refuseAnswers(reason: string): void {
    for (const waiting of [this.#statsWaiting, this.#viewsWaiting]) {
      for (const { reject } of waiting.values()) reject(new Error(reason));
      waiting.clear();
    }
  }
}

function answer<Answer>(waiting: Map<number, Waiter<Answer>>, ticket: number, value: Answer): void {
  waiting.get(ticket)?.resolve(value);
  waiting.delete(ticket);
}
