// A gateway's requests on their way: which worker has each, what came of it, and what becomes of it when that worker is lost.
// Tokens are counted here, so that none is delivered twice, whoever sends it; a worker that was given up is not believed.

import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineRequest, RequestEvent } from '../../engine/request.ts';
import { failedEvent } from '../../engine/request-errors.ts';
import { RequestStreams } from '../../engine/request-streams.ts';
import type { VocabularyTables } from '../../grammar/vocabulary.ts';
import type { Bus } from '../bus.ts';
import type { Membership } from '../membership.ts';
import type {
  AnswerNews,
  AnswerStanding,
  Attempt,
  NodeStatus,
  Returned,
  ToGateway,
  ToWorker,
} from '../messages.ts';
import type { Subjects } from '../subjects.ts';
import { NO_VOCABULARY } from '../worker/fleet-worker.ts';
import { type AskedModel, type FoundAnswer, OpenAnswer } from './open-answer.ts';
import type { WorkerChoice } from './worker-choice.ts';

const TICK_MS = 250;
const AGAIN_MS = 20;
/** What a worker was sent and does not tell of after so long did not arrive. */
const LOST_AFTER_MS = 1500;
/** Where nobody can take a request, it waits so long for somebody. */
const WAIT_MS = 60_000;

interface DispatcherOptions {
  readonly node: string;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly membership: Membership;
  readonly choice: WorkerChoice;
  /** What a worker still has of an answer that was begun by way of another gateway. */
  readonly find: (worker: string, id: string) => Promise<FoundAnswer | undefined>;
  readonly nowMs: () => number;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #streams = new RequestStreams();
  readonly #open = new Map<string, OpenAnswer>();
  readonly #vocabularies = new Map<string, VocabularyTables>();
  /** Processes of workers that were told what a model's tokens spell. */
  readonly #taught = new Set<string>();
  readonly #endings: (() => void)[] = [];
  #whenIdle: (() => void)[] = [];

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const { bus, subjects, node, membership } = options;
    const timer = setInterval(() => this.#tick(), TICK_MS);
    this.#endings.push(
      () => clearInterval(timer),
      bus.listen(subjects.news(node), (message) => this.#hear(message as ToGateway)),
      membership.onChange((change, status) =>
        change === 'left' ? this.#lost(status) : this.#assignWaiting(),
      ),
    );
  }

  /**
   * Its events, as from an engine. One that runs already by this id ends: its client has come back before its leaving was
   * noticed.
   */
  submit(model: AskedModel, request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const before = this.#open.get(request.id);
    if (before === undefined) return this.#begin(model, request);
    if (before.worker !== undefined) this.#tell(before.worker.node, { kind: 'cancel', ...before.current });
    this.#finish(before, before.cancelledEvent());
    return this.#beginAfter(model, request);
  }

  async *#beginAfter(model: AskedModel, request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    while (this.#streams.has(request.id)) await sleep(AGAIN_MS);
    yield* this.#begin(model, request);
  }

  #begin(model: AskedModel, request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const { id } = request;
    const events = this.#streams.open(id, () => this.cancel(id));
    const open = new OpenAnswer(model, request, this.#options.nowMs());
    this.#open.set(id, open);
    if (request.recover === true) void this.#recover(open);
    else this.#assign(open);
    return events;
  }

  cancel(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    open.cancelled = true;
    if (open.recovering) return;
    if (open.worker === undefined) this.#finish(open, open.cancelledEvent());
    else this.#tell(open.worker.node, { kind: 'cancel', ...open.current });
  }

  setVocabulary(model: string, tables: VocabularyTables): void {
    this.#vocabularies.set(model, tables);
  }

  /** Resolves when every request has ended. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  close(): void {
    for (const open of [...this.#open.values()]) {
      this.cancel(open.request.id);
      this.#fail(open, 'the server is shutting down');
    }
    for (const end of this.#endings) end();
  }

  /** Asks every worker what it still has of it, and goes on from there. What nobody has is computed again. */
  async #recover(open: OpenAnswer): Promise<void> {
    const { membership, find } = this.#options;
    open.recovering = true;
    const found = await Promise.all(membership.workers().map(({ node }) => find(node, open.request.id)));
    open.recovering = false;
    if (!this.#open.has(open.request.id)) return;
    const events = open.resume(found.filter((one) => one !== undefined));
    const last = events.at(-1);
    this.#streams.deliver(events.filter(({ kind }) => kind === 'token'));
    if (last?.kind === 'finish') this.#finish(open, last);
    else if (open.cancelled) this.#finish(open, open.cancelledEvent());
    else this.#assign(open);
  }

  #hear(message: ToGateway): void {
    const { worker, start } = message;
    if (message.kind === 'news') for (const news of message.news) this.#take(worker, start, news);
    else this.#compare(worker, start, message.standing);
  }

  #take(worker: string, start: string, news: AnswerNews): void {
    const open = this.#ofWorker(worker, start, news);
    if (open === undefined) {
      this.#disown(worker, news);
      return;
    }
    open.heardMs = this.#options.nowMs();
    const events = open.accept(news);
    if (events === 'gap') {
      this.#askAgain(open);
      return;
    }
    this.#streams.deliver(events);
    if (news.finish !== undefined) this.#finish(open, { ...news.finish, id: open.request.id });
    else if (news.returned !== undefined) this.#returned(open, news.returned);
  }

  /** Who has missed something asks for it; what nobody wants any more is stopped. */
  #compare(worker: string, start: string, standing: readonly AnswerStanding[]): void {
    const nowMs = this.#options.nowMs();
    for (const one of standing) {
      const open = this.#ofWorker(worker, start, one);
      if (open === undefined) {
        this.#disown(worker, one);
        continue;
      }
      open.heardMs = nowMs;
      if (open.cancelled) this.#tell(worker, { kind: 'cancel', ...open.current });
      if (one.count > open.tokens.length || one.ended) this.#askAgain(open);
    }
  }

  /** The request that this worker has been given, if this is its present attempt. */
  #ofWorker(worker: string, start: string, { id, attempt }: Attempt): OpenAnswer | undefined {
    const open = this.#open.get(id);
    const isIts = open?.worker?.node === worker && open.worker.start === start && open.attempt === attempt;
    return isIts ? open : undefined;
  }

  #disown(worker: string, { id, attempt }: Attempt): void {
    this.#tell(worker, { kind: 'cancel', id, attempt });
    this.#tell(worker, { kind: 'settled', id, attempt });
  }

  #askAgain(open: OpenAnswer): void {
    const { worker, current, tokens } = open;
    if (worker === undefined) return;
    const gateway = this.#options.node;
    this.#tell(worker.node, { kind: 'repeat', ...current, gateway, count: tokens.length });
  }

  #returned(open: OpenAnswer, { reason, suspect }: Returned): void {
    const { worker } = open;
    if (worker === undefined) return;
    this.#tell(worker.node, { kind: 'settled', ...open.current });
    if (open.cancelled) {
      this.#finish(open, open.cancelledEvent());
      return;
    }
    if (reason === NO_VOCABULARY) this.#taught.delete(taughtKey(worker, open.model.name));
    else open.returnedBy(worker.node, suspect, this.#options.nowMs());
    this.#release(open);
    if (open.isHopeless) this.#fail(open, `several workers could not answer; the last: ${reason}`);
    else this.#assign(open);
  }

  #lost({ node, start }: NodeStatus): void {
    for (const open of [...this.#open.values()]) {
      if (open.worker?.node !== node || open.worker.start !== start) continue;
      this.#release(open);
      if (open.cancelled) this.#finish(open, open.cancelledEvent());
      else this.#assign(open);
    }
  }

  #assignWaiting(): void {
    for (const open of this.#open.values()) {
      if (open.worker === undefined && !open.recovering) this.#assign(open);
    }
  }

  #assign(open: OpenAnswer): void {
    const { membership, choice, nowMs } = this.#options;
    const chosen = choice.choose(open, membership.workers(), nowMs());
    if (chosen === undefined) return;
    open.give(chosen, nowMs());
    this.#send(open);
  }

  /** The same attempt twice is one. */
  #send(open: OpenAnswer): void {
    const { worker, model, current, number, cachedTokens } = open;
    if (worker === undefined) return;
    open.sentMs = this.#options.nowMs();
    if (open.needsVocabulary) this.#teach(worker, model.name);
    const gateway = this.#options.node;
    const request = open.asItStands();
    const work = { kind: 'submit', model: model.name, request, number, cachedTokens } as const;
    this.#tell(worker.node, { ...work, ...current, gateway });
  }

  #teach(worker: Pick<NodeStatus, 'node' | 'start'>, model: string): void {
    const tables = this.#vocabularies.get(model);
    const key = taughtKey(worker, model);
    if (tables === undefined || this.#taught.has(key)) return;
    this.#taught.add(key);
    this.#tell(worker.node, { kind: 'vocabulary', model, tables });
  }

  #release(open: OpenAnswer): void {
    this.#options.choice.released(open);
    open.worker = undefined;
    open.waitingSinceMs = this.#options.nowMs();
  }

  #tick(): void {
    const nowMs = this.#options.nowMs();
    for (const open of [...this.#open.values()]) {
      if (open.recovering) continue;
      if (open.worker === undefined) this.#assign(open);
      // A worker that has nothing of this gateway's tells nothing.
      else if (nowMs - Math.max(open.sentMs, open.heardMs) > LOST_AFTER_MS) this.#send(open);
      if (open.worker === undefined && nowMs - open.waitingSinceMs > WAIT_MS) {
        this.#fail(open, `no worker serves ${open.model.name} now`);
      }
    }
  }

  #fail(open: OpenAnswer, message: string): void {
    this.#finish(open, failedEvent(open.asItStands(), { code: 'engine-failed', message }));
  }

  #finish(open: OpenAnswer, event: RequestEvent): void {
    const { worker, current } = open;
    if (!this.#open.delete(open.request.id)) return;
    if (worker !== undefined) this.#tell(worker.node, { kind: 'settled', ...current });
    this.#options.choice.released(open);
    this.#streams.deliver([event]);
    if (this.#open.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #tell(worker: string, message: ToWorker): void {
    const { bus, subjects } = this.#options;
    bus.tell(subjects.work(worker), message);
  }
}

function taughtKey({ node, start }: Pick<NodeStatus, 'node' | 'start'>, model: string): string {
  return `${node} ${start} ${model}`;
}
