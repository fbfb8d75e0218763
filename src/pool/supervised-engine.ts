// What an engine owes to its clients, though the engine itself may come and go: when one is lost, the next takes over
// every unfinished request with the tokens it already had. A client's stream pauses and goes on.

import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineStats } from '../engine/engine.ts';
import type { EngineClient } from '../engine/engine-client.ts';
import { EnginePublisher } from '../engine/engine-monitor.ts';
import type { EngineSnapshot } from '../engine/live/snapshot.ts';
import type { EngineSettings, ToEngine } from '../engine/protocol.ts';
import type { EngineRequest, FinishEvent, RequestError, RequestEvent } from '../engine/request.ts';
import {
  cancelledEvent,
  drainingError,
  failedEvent,
  supersededError,
  unloadedError,
} from '../engine/request-errors.ts';
import { RequestStreams } from '../engine/request-streams.ts';
import type { SlotAction, SlotResult } from '../engine/slots/slot-action.ts';
import type { StepReport } from '../engine/step-report.ts';
import type { ModelIdentity } from '../engine/tiers/block-keys.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { EngineKeeper, type KeeperOptions, type StartResult } from './engine-keeper.ts';
import { SentGrammars } from './sent-grammars.ts';
import { DEATHS_TO_GIVE_UP, UnfinishedRequests } from './unfinished-requests.ts';

/** Requests, ids and events that are passed on in one turn of the event loop: where there are more, others come in between. */
const REQUESTS_A_TURN = 128;
const IDS_A_TURN = 1024;
const EVENTS_A_TURN = 256;
const AGAIN_MS = 10;

interface Waiter<Answer> {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

export class SupervisedEngine implements EngineClient {
  readonly monitor = new EnginePublisher({
    reportStats: (on) => this.#keeper.send({ kind: 'report-stats', on }),
    reportPrefixes: (on) => this.#keeper.send({ kind: 'report-prefixes', on }),
    reportStored: (on) => this.#keeper.send({ kind: 'report-stored', on }),
    snapshot: () => this.#ask(this.#snapshotsWaiting, (ticket) => ({ kind: 'snapshot', ticket })),
    endSnapshots: () => this.#keeper.send({ kind: 'end-snapshots' }),
  });
  readonly #keeper: EngineKeeper;
  readonly #streams = new RequestStreams();
  readonly #unfinished = new UnfinishedRequests();
  readonly #grammars = new SentGrammars();
  readonly #statsWaiting = new Map<number, Waiter<EngineStats>>();
  readonly #snapshotsWaiting = new Map<number, Waiter<EngineSnapshot>>();
  readonly #slotsWaiting = new Map<number, Waiter<SlotResult>>();
  /** Under way. */
  readonly #slotActions = new Set<{ readonly sinceMs: number }>();
  readonly #whenDrained: (() => void)[] = [];
  /** Cancelled but not ended: an engine may be lost before it hears of it. */
  readonly #cancelled = new Set<string>();
  /** Wait until the engine has let go of one with the same id. */
  readonly #takingOver = new Set<EngineRequest>();
  /** Not sent to the engine yet. */
  #cancels: string[] = [];
  /** From the engine, not delivered yet. */
  #reports: StepReport[] = [];
  /** Enough is delivered for this turn of the event loop. */
  #publishing = false;
  #sending = false;
  #draining = false;
  #closed: Promise<void> | undefined;
  #failure: string | undefined;
  #tickets = 0;

  constructor(settings: EngineSettings, options: KeeperOptions = {}) {
    this.#keeper = new EngineKeeper(settings, options, {
      ready: () => this.#ready(),
      report: (report) => this.#hear(report),
      unknownGrammar: (id, key) => this.#resubmit(id, key),
      stats: (ticket, stats) => answer(this.#statsWaiting, ticket, stats),
      snapshot: (ticket, view) => answer(this.#snapshotsWaiting, ticket, view),
      slot: (ticket, result) => answer(this.#slotsWaiting, ticket, result),
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

  /** Whether it runs without batching, by choice or for want of a process. */
  get direct(): boolean {
    return this.#keeper.direct;
  }

  /** When its oldest unfinished request came, or what is to be done with a slot. */
  get oldestMs(): number | undefined {
    const all = [...this.#slotActions].map(({ sinceMs }) => sinceMs);
    const { oldestMs } = this.#unfinished;
    if (oldestMs !== undefined) all.push(oldestMs);
    return all.length === 0 ? undefined : Math.min(...all);
  }

  /** Resolves when the model is loaded, or cannot be. */
  start(): Promise<StartResult> {
    return this.#keeper.start();
  }

  /** A request that runs under this id already ends: its client has come back by another connection. */
  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    return this.#runs(request.id) ? this.#takeOver(request) : this.#begin(request);
  }

  #runs(id: string): boolean {
    return this.#streams.has(id) || this.#unfinished.has(id);
  }

  async *#takeOver(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const { id } = request;
    this.#takingOver.add(request);
    try {
      while (this.#runs(id)) {
        const before = this.#unfinished.find(id);
        if ((before?.takeover ?? 0) > (request.takeover ?? 0)) {
          yield failedEvent(request, supersededError);
          return;
        }
        if (before !== undefined) this.#supersede(before);
        await sleep(AGAIN_MS);
      }
      if (!this.#takingOver.has(request)) {
        yield cancelledEvent(request);
        return;
      }
    } finally {
      this.#takingOver.delete(request);
    }
    yield* this.#begin(request);
  }

  #supersede(request: EngineRequest): void {
    this.#streams.deliver([failedEvent(request, supersededError)]);
    this.#cancelRunning(request.id);
  }

  #begin(request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const events = this.#streams.open(request.id, () => this.cancel(request.id));
    this.#unfinished.add(request);
    const refusal = this.#refusal();
    if (refusal !== undefined) this.#fail(request, refusal);
    else this.#sendSoon();
    return events;
  }

  cancel(id: string): void {
    for (const one of this.#takingOver) {
      if (one.id !== id) continue;
      this.#takingOver.delete(one);
      return;
    }
    this.#cancelRunning(id);
  }

  #cancelRunning(id: string): void {
    if (!this.#unfinished.has(id) || this.#cancelled.has(id)) return;
    const unsubmitted = this.#unfinished.unsubmitted(id);
    if (unsubmitted !== undefined) {
      this.#endCancelled(unsubmitted);
      return;
    }
    this.#cancelled.add(id);
    this.#cancels.push(id);
    this.#sendSoon();
  }

  stats(): Promise<EngineStats> {
    return this.#ask(this.#statsWaiting, (ticket) => ({ kind: 'stats', ticket }));
  }

  async actOnSlot(action: SlotAction): Promise<SlotResult> {
    const own = { sinceMs: Date.now() };
    this.#slotActions.add(own);
    try {
      return await this.#ask(this.#slotsWaiting, (ticket) => ({ kind: 'slot', ticket, action }));
    } finally {
      this.#slotActions.delete(own);
    }
  }

  setVocabulary(vocabulary: VocabularyTables): void {
    this.#keeper.setVocabulary(vocabulary);
  }

  /** Which model it is: from then on blocks that leave memory are kept. */
  identify(name: string, identity: ModelIdentity): void {
    this.#keeper.identify(name, identity);
  }

  /** Deletes what is kept of a tenant's blocks. */
  removeTenant(tenant: string): void {
    this.#keeper.removeTenant(tenant);
  }

  allow(blocks: number): void {
    this.#keeper.allow(blocks);
  }

  /** How many threads may compute; at most as many as its settings say. */
  useThreads(count: number): void {
    this.#keeper.useThreads(count);
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
    this.#publishSome(Number.POSITIVE_INFINITY);
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
    this.monitor.resume();
    this.#send();
  }

  /** Reports of thousands of ends come one upon the other: routes that have nothing to do with them are served meanwhile. */
  #hear(report: StepReport): void {
    this.#reports.push(report);
    if (!this.#publishing) this.#publishSome(EVENTS_A_TURN);
  }

  #publishSome(most: number): void {
    let published = 0;
    while (published < most) {
      // Taken out first: its listeners may cause further deliveries.
      const report = this.#reports.shift();
      if (report === undefined) break;
      published += report.events.length;
      this.#publish(report);
    }
    this.#publishing = published >= most;
    if (!this.#publishing) return;
    setImmediate(() => {
      this.#publishing = false;
      this.#publishSome(EVENTS_A_TURN);
    });
  }

  #publish(report: StepReport): void {
    const { events } = report;
    this.#unfinished.note(events);
    for (const { id } of events) if (!this.#unfinished.has(id)) this.#cancelled.delete(id);
    this.#streams.deliver(events);
    this.monitor.publish(report);
    this.#send();
    this.#noteDrained();
  }

  #resubmit(id: string, key: string): void {
    this.#grammars.forget(key);
    this.#unfinished.resubmit(id);
    const request = this.#cancelled.has(id) ? this.#unfinished.unsubmitted(id) : undefined;
    if (request !== undefined) this.#endCancelled(request);
    this.#send();
  }

  #lost(cause: string, died: boolean): void {
    this.#publishSome(Number.POSITIVE_INFINITY);
    this.#grammars.clear();
    this.#refuseAnswers(`the engine process ${cause}`);
    this.monitor.lost(died);
    if (!died) this.#unfinished.takeBack();
    for (const request of died ? this.#unfinished.die() : []) {
      const message = `${DEATHS_TO_GIVE_UP} engine processes in a row ended on this request; the last ${cause}`;
      this.#deliver(failedEvent(request, { code: 'engine-failed', message }));
    }
    // The next engine need not hear of them.
    this.#cancels = [];
    for (const id of this.#cancelled) {
      const request = this.#unfinished.unsubmitted(id);
      if (request !== undefined) this.#endCancelled(request);
    }
  }

  /** No engine can be had: every request ends with the reason, and so does every later one. */
  #giveUp(message: string): void {
    this.#failure = message;
    for (const request of this.#unfinished.all()) this.#fail(request, { code: 'engine-failed', message });
  }

  /** What comes in one go is sent in one message. */
  #sendSoon(): void {
    if (this.#sending) return;
    this.#sending = true;
    queueMicrotask(() => {
      this.#sending = false;
      this.#send();
    });
  }

  /** The rest in the next turn of the event loop, where there is one. */
  #send(): void {
    if (this.#sending || !this.#keeper.isReady) return;
    const requests = this.#unfinished.takeSubmittable(REQUESTS_A_TURN);
    if (requests.length > 0) {
      this.#keeper.send({ kind: 'submit', requests: requests.map((one) => this.#grammars.pack(one)) });
    }
    const ids = this.#cancels.splice(0, IDS_A_TURN);
    if (ids.length > 0) this.#keeper.send({ kind: 'cancel', ids });
    if (requests.length < REQUESTS_A_TURN && this.#cancels.length === 0) return;
    this.#sending = true;
    setImmediate(() => {
      this.#sending = false;
      this.#send();
    });
  }

  #refusal(): RequestError | undefined {
    if (this.#draining || this.#closed !== undefined) return drainingError;
    return this.#failure === undefined ? undefined : { code: 'engine-failed', message: this.#failure };
  }

  #fail(request: EngineRequest, error: RequestError): void {
    this.#unfinished.remove(request.id);
    this.#deliver(failedEvent(request, error));
  }

  #endCancelled(request: EngineRequest): void {
    this.#unfinished.remove(request.id);
    this.#deliver(cancelledEvent(request));
  }

  #deliver(event: FinishEvent): void {
    this.#cancelled.delete(event.id);
    this.#streams.deliver([event]);
    this.#noteDrained();
  }

  #noteDrained(): void {
    if (this.#unfinished.size === 0) for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  #refuseAnswers(reason: string): void {
    for (const waiting of [this.#statsWaiting, this.#snapshotsWaiting, this.#slotsWaiting]) {
      for (const { reject } of waiting.values()) reject(new Error(reason));
      waiting.clear();
    }
  }
}

function answer<Answer>(waiting: Map<number, Waiter<Answer>>, ticket: number, value: Answer): void {
  waiting.get(ticket)?.resolve(value);
  waiting.delete(ticket);
}
