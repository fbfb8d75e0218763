// A gateway's open requests: which worker computes each, its tokens so far, and what happens when that worker is lost. Tokens
// are counted here, so that none is delivered twice; updates of an earlier attempt are ignored.

import type { EngineRequest, RequestEvent } from '../../engine/request.ts';
import { failedEvent, supersededError } from '../../engine/request-errors.ts';
import { RequestStreams } from '../../engine/request-streams.ts';
import type { VocabularyTables } from '../../grammar/vocabulary.ts';
import { type Clock, sleep } from '../../runtime/clock.ts';
import type { Bus, Subjects } from '../bus.ts';
import type { Membership } from '../membership.ts';
import type {
  AnswerProgress,
  AnswerUpdate,
  Attempt,
  NodeStatus,
  Returned,
  ToGateway,
  ToWorker,
} from '../messages.ts';
import { NO_VOCABULARY } from '../worker/fleet-worker.ts';
import type { AnswerDirectory } from './answer-directory.ts';
import { HeldPictures, tooManyPictures } from './held-pictures.ts';
import { type AskedModel, type FoundAnswer, OpenAnswer } from './open-answer.ts';
import { pictureParts, sentRequest, type WantedPicture } from './sent-pictures.ts';
import type { WorkerChoice } from './worker-choice.ts';
import type { WorkerProcess } from './worker-health.ts';

const TICK_MS = 250;
const AGAIN_MS = 20;
/** A request whose worker does not mention it for this long did not arrive. */
const LOST_AFTER_MS = 1500;
/** After this many sends in vain another worker gets it. */
const MOST_SENDS = 3;
/** How long a request waits for a worker that acknowledges it: its client has heard nothing yet, and can ask elsewhere. */
const PLACE_MS = 8000;
/** How long one that has begun waits, where its worker or the message system is gone. */
const WAIT_MS = 60_000;

interface DispatcherOptions {
  readonly node: string;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly membership: Membership;
  readonly choice: WorkerChoice;
  /** Finds what a worker still has of an answer that began at another gateway. */
  readonly find: (worker: string, current: Attempt) => Promise<FoundAnswer | undefined>;
  /** Undefined where nobody can come back to an answer. */
  readonly directory: Pick<AnswerDirectory, 'note' | 'find'> | undefined;
  /** For the files of pictures of open requests. Default: no limit. */
  readonly pictureBytes?: number | undefined;
  readonly nowMs: () => number;
  readonly clock: Clock;
}

export class Dispatcher {
  /** Since the start: requests that changed workers, and those that were sent to theirs again. */
  readonly counts = { reassignments: 0, resends: 0, expectedTokens: { memory: 0, host: 0, disk: 0 } };
  readonly #options: DispatcherOptions;
  readonly #streams = new RequestStreams();
  readonly #files: HeldPictures;
  readonly #open = new Map<string, OpenAnswer>();
  readonly #vocabularies = new Map<string, VocabularyTables>();
  /** Worker processes that have the vocabulary of a model. */
  readonly #vocabularySent = new Set<string>();
  readonly #endings: (() => void)[] = [];
  #whenIdle: (() => void)[] = [];

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#files = new HeldPictures(options.pictureBytes);
    const { bus, subjects, node, membership, clock } = options;
    const timer = clock.every(TICK_MS, () => this.#tick());
    this.#endings.push(
      () => timer.end(),
      bus.subscribe(subjects.news(node), (message) => this.#handle(message as ToGateway)),
      membership.onChange((change, status) =>
        change === 'left' ? this.#lost(status) : this.#assignWaiting(),
      ),
    );
  }

  /** A request that runs under this id already ends: its client has come back by another connection. */
  submit(model: AskedModel, request: EngineRequest): AsyncGenerator<RequestEvent, void, void> {
    const before = this.#open.get(request.id);
    if (before === undefined) return this.#begin(model, request);
    if (before.worker !== undefined) this.#publish(before.worker.node, { kind: 'cancel', ...before.current });
    this.#finish(before, failedEvent(before.asItStands(), supersededError));
    return this.#beginAfter(model, request, before.attempt);
  }

  async *#beginAfter(
    model: AskedModel,
    request: EngineRequest,
    attempt: number,
  ): AsyncGenerator<RequestEvent, void, void> {
    while (this.#streams.has(request.id)) await sleep(this.#options.clock, AGAIN_MS);
    yield* this.#begin(model, request, attempt);
  }

  /** `attempt`: the last one that this gateway has made before. */
  #begin(model: AskedModel, request: EngineRequest, attempt = 0): AsyncGenerator<RequestEvent, void, void> {
    const { id } = request;
    const { nowMs, clock } = this.#options;
    const events = this.#streams.open(id, () => this.cancel(id));
    const open = new OpenAnswer(model, request, { nowMs: nowMs(), wallMs: clock.wallMs() });
    open.attempt = Math.max(open.attempt, attempt);
    this.#open.set(id, open);
    if (!this.#files.hold(request)) this.#finish(open, failedEvent(request, tooManyPictures));
    else if ((request.takeover ?? 0) > 0) void this.#recover(open);
    else this.#assign(open);
    return events;
  }

  cancel(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    open.cancelled = true;
    if (open.recovering) return;
    if (open.worker === undefined) this.#finish(open, open.cancelledEvent());
    else this.#publish(open.worker.node, { kind: 'cancel', ...open.current });
  }

  /** Resolves when a worker has acknowledged the request: never, where it ends before. */
  accepted(id: string): Promise<void> {
    return this.#open.get(id)?.accepted ?? Promise.resolve();
  }

  setVocabulary(model: string, tables: VocabularyTables): void {
    this.#vocabularies.set(model, tables);
  }

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

  /** Asks the worker that had it last what it has of the answer and continues from there; what it lacks is computed again. */
  async #recover(open: OpenAnswer): Promise<void> {
    const { membership, find, directory } = this.#options;
    open.recovering = true;
    const worker = await directory?.find(open.request.id);
    const isThere = worker !== undefined && membership.get(worker) !== undefined;
    const found = isThere ? await find(worker, open.current) : undefined;
    open.recovering = false;
    if (!this.#open.has(open.request.id)) return;
    const events = open.resume(found);
    const last = events.at(-1);
    this.#streams.deliver(events.filter(({ kind }) => kind === 'token'));
    if (last?.kind === 'finish') this.#finish(open, last);
    else if (open.cancelled) this.#finish(open, open.cancelledEvent());
    else this.#assign(open);
  }

  #handle(message: ToGateway): void {
    const { worker, start } = message;
    if (message.kind === 'superseded') this.#superseded(worker, start, message);
    else if (message.kind === 'picture') this.#sendPicture(message);
    else if (message.kind === 'news') for (const news of message.news) this.#take(worker, start, news);
    else this.#compare(worker, start, message.standing);
  }

  #superseded(worker: string, start: string, attempt: Attempt): void {
    const open = this.#ofWorker(worker, start, attempt);
    if (open !== undefined) this.#finish(open, failedEvent(open.asItStands(), supersededError));
  }

  #take(worker: string, start: string, news: AnswerUpdate): void {
    const open = this.#ofWorker(worker, start, news);
    // What is computed for nobody is cancelled with the next report of progress: news come with every step.
    if (open === undefined) return;
    // What fails before it begins is refused, not accepted.
    this.#acknowledge(open, news.finish?.error !== undefined);
    const events = open.accept(news);
    if (events === 'gap') {
      this.#askAgain(open);
      return;
    }
    this.#streams.deliver(events);
    if (news.finish !== undefined) {
      this.#note(open);
      this.#finish(open, { ...news.finish, id: open.request.id });
    } else if (news.returned !== undefined) this.#returned(open, news.returned);
  }

  /** Asks again for what is missing, and cancels what no client wants any more. */
  #compare(worker: string, start: string, progress: readonly AnswerProgress[]): void {
    for (const one of progress) {
      const open = this.#ofWorker(worker, start, one);
      if (open === undefined) {
        this.#disown(worker, one);
        continue;
      }
      // One that ended without a token may have failed.
      const isOpen = one.preparing === true || (one.ended && one.count === 0);
      this.#acknowledge(open, isOpen);
      if (open.cancelled) this.#publish(worker, { kind: 'cancel', ...open.current });
      if (one.count > open.tokens.length || one.ended) this.#askAgain(open);
    }
  }

  /** `isOpen`: the worker has it, and may still refuse it. */
  #acknowledge(open: OpenAnswer, isOpen = false): void {
    open.acknowledged(this.#options.nowMs(), isOpen);
    if (open.worker !== undefined) this.#options.choice.health.acknowledged(open.worker);
  }

  /** To the worker that has the request, whoever asks for it. */
  #sendPicture(wanted: WantedPicture): void {
    const open = this.#ofWorker(wanted.worker, wanted.start, wanted);
    if (open?.worker === undefined) {
      this.#disown(wanted.worker, wanted);
      return;
    }
    this.#acknowledge(open, true);
    for (const part of pictureParts(open.request, wanted)) this.#publish(open.worker.node, part);
  }

  #ofWorker(worker: string, start: string, { id, attempt }: Attempt): OpenAnswer | undefined {
    const open = this.#open.get(id);
    const isIts = open?.worker?.node === worker && open.worker.start === start && open.attempt === attempt;
    return isIts ? open : undefined;
  }

  #disown(worker: string, { id, attempt }: Attempt): void {
    this.#publish(worker, { kind: 'cancel', id, attempt });
    this.#publish(worker, { kind: 'settled', id, attempt });
  }

  #askAgain(open: OpenAnswer): void {
    const { worker, current, tokens } = open;
    if (worker === undefined) return;
    const gateway = this.#options.node;
    this.#publish(worker.node, { kind: 'repeat', ...current, gateway, count: tokens.length });
  }

  #returned(open: OpenAnswer, { reason, suspect }: Returned): void {
    const { worker } = open;
    if (worker === undefined) return;
    this.#publish(worker.node, { kind: 'settled', ...open.current });
    if (open.cancelled) {
      this.#finish(open, open.cancelledEvent());
      return;
    }
    if (reason === NO_VOCABULARY) this.#vocabularySent.delete(vocabularyKey(worker, open.model.name));
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
    const { choice, nowMs } = this.#options;
    const chosen = choice.choose(open, nowMs());
    if (chosen === undefined) return;
    open.give(chosen);
    const { expectedTokens } = this.counts;
    for (const tier of ['memory', 'host', 'disk'] as const) expectedTokens[tier] += chosen.expected[tier];
    this.#send(open);
  }

  /** A while after it was given, or at its end: what is over soon is noted once. */
  #note(open: OpenAnswer): void {
    const { worker, request, notedAt } = open;
    if (request.takeover === undefined || worker === undefined || worker.node === notedAt) return;
    if (!open.isPlaced) return;
    open.notedAt = worker.node;
    this.#options.directory?.note(request.id, worker.node);
  }

  /** Sending the same attempt twice has no effect. */
  #send(open: OpenAnswer): void {
    const { worker, model, current, number, expected } = open;
    if (worker === undefined) return;
    open.sentMs = this.#options.nowMs();
    open.unacknowledged += 1;
    if (open.needsVocabulary) this.#sendVocabulary(worker, model.name);
    const gateway = this.#options.node;
    const request = sentRequest(open.asItStands());
    const ageMs = open.ageMs(open.sentMs);
    const { memory = 0, host = 0, disk = 0 } = expected ?? {};
    const cachedTokens = memory + host + disk;
    const work = {
      kind: 'submit',
      model: model.name,
      request,
      ageMs,
      number,
      cachedTokens,
      expected,
    } as const;
    this.#publish(worker.node, { ...work, ...current, gateway });
  }

  #resend(open: OpenAnswer): void {
    this.counts.resends += 1;
    this.#send(open);
  }

  #sendVocabulary(worker: Pick<NodeStatus, 'node' | 'start'>, model: string): void {
    const tables = this.#vocabularies.get(model);
    const key = vocabularyKey(worker, model);
    if (tables === undefined || this.#vocabularySent.has(key)) return;
    this.#vocabularySent.add(key);
    this.#publish(worker.node, { kind: 'vocabulary', model, tables });
  }

  #release(open: OpenAnswer): void {
    this.counts.reassignments += 1;
    this.#options.choice.released(open);
    open.worker = undefined;
  }

  #tick(): void {
    const { bus } = this.#options;
    const nowMs = this.#options.nowMs();
    for (const open of [...this.#open.values()]) {
      if (open.recovering) continue;
      this.#note(open);
      if (nowMs - open.heardMs > (open.isPlaced ? WAIT_MS : PLACE_MS)) this.#giveUp(open);
      // Without a connection nobody can be asked, and nobody's silence means anything.
      else if (bus.state !== 'connected') continue;
      else if (open.worker === undefined) this.#assign(open);
      else this.#check(open, open.worker, nowMs);
    }
  }

  #giveUp(open: OpenAnswer): void {
    const isAway = this.#options.bus.state !== 'connected';
    const message = isAway
      ? 'the message system of the fleet cannot be reached'
      : `no worker takes requests for ${open.model.name} now`;
    this.#finish(open, failedEvent(open.asItStands(), { code: 'no-worker', message }));
  }

  /** A worker without requests of this gateway publishes nothing to it, so silence may mean that a request was lost. */
  #check(open: OpenAnswer, worker: WorkerProcess, nowMs: number): void {
    const { choice } = this.#options;
    const isSilent = nowMs - Math.max(open.sentMs, open.heardMs) > LOST_AFTER_MS;
    const isDeaf = isSilent && open.unacknowledged >= MOST_SENDS;
    if (isDeaf || choice.health.isStuck(worker, open.model.name)) {
      choice.health.failed(worker, nowMs);
      if (choice.hasOther(open, nowMs)) {
        this.#takeBack(open, worker);
        return;
      }
    }
    if (isSilent) this.#resend(open);
  }

  #takeBack(open: OpenAnswer, { node }: WorkerProcess): void {
    this.#disown(node, open.current);
    this.#release(open);
    if (open.cancelled) this.#finish(open, open.cancelledEvent());
    else this.#assign(open);
  }

  #fail(open: OpenAnswer, message: string): void {
    this.#finish(open, failedEvent(open.asItStands(), { code: 'engine-failed', message }));
  }

  #finish(open: OpenAnswer, event: RequestEvent): void {
    const { worker, current } = open;
    if (!this.#open.delete(open.request.id)) return;
    this.#files.release(open.request);
    if (worker !== undefined) this.#publish(worker.node, { kind: 'settled', ...current });
    this.#options.choice.released(open);
    this.#streams.deliver([event]);
    if (this.#open.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #publish(worker: string, message: ToWorker): void {
    const { bus, subjects } = this.#options;
    bus.publish(subjects.work(worker), message);
  }
}

function vocabularyKey({ node, start }: Pick<NodeStatus, 'node' | 'start'>, model: string): string {
  return `${node} ${start} ${model}`;
}
