// Computes the requests that gateways send, with the models of its pool, and publishes their tokens. It owns no request: a
// gateway may give it to another worker at any time, under a higher attempt.

import type { EngineRequest, FinishEvent, RequestError, TokenEvent } from '../../engine/request.ts';
import type { VocabularyTables } from '../../grammar/vocabulary.ts';
import type { ModelLease, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { Clock } from '../../runtime/clock.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Bus, Subjects } from '../bus.ts';
import type { Membership } from '../membership.ts';
import type { Attempt, NamedPictures, ToGateway, ToWorker } from '../messages.ts';
import { Ledger, type LedgerEntry, Outbox } from './ledger.ts';
import type { WorkSpans } from './work-spans.ts';
import { type PreparedPictures, UnreadablePicture, type WorkerPictures } from './worker-pictures.ts';

const PROGRESS_EVERY_MS = 500;
/** Requests of a lost gateway continue for this long: clients may come back at another one. */
const ORPHAN_MS = 30_000;

/** Errors after which another worker may succeed. */
const returnable: readonly RequestError['code'][] = ['draining', 'engine-failed'];

export const NO_VOCABULARY = 'what its tokens spell is not known here';

interface FleetWorkerOptions {
  readonly node: string;
  readonly start: string;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly membership: Membership;
  readonly pool: ModelPool;
  /** Called before the gateway learns of an answer's end. */
  readonly onEnd: () => void;
  /** Called where it may not listen on this subject, its own. */
  readonly onRefused: (subject: string) => void;
  readonly nowMs: () => number;
  readonly clock: Clock;
  /** Undefined where no traces are taken. */
  readonly spans?: WorkSpans | undefined;
  /** Undefined where it reads no images. */
  readonly pictures?: WorkerPictures | undefined;
}

type Submission = Extract<ToWorker, { kind: 'submit' }>;
type GatewayMessage = ToGateway extends infer One
  ? One extends ToGateway
    ? Omit<One, 'worker' | 'start'>
    : never
  : never;

export class FleetWorker {
  readonly ledger = new Ledger();
  /** By gateway: the number of its last request. */
  readonly heard = new Map<string, number>();
  draining = false;
  readonly #options: FleetWorkerOptions;
  readonly #outbox: Outbox;
  readonly #vocabularies = new Map<string, VocabularyTables>();
  /** Cancels each running entry. */
  readonly #cancels = new Map<LedgerEntry, () => void>();
  readonly #goneMs = new Map<string, number>();
  readonly #endings: (() => void)[] = [];
  #whenIdle: (() => void)[] = [];

  constructor(options: FleetWorkerOptions) {
    this.#options = options;
    const { bus, subjects, node, membership, clock } = options;
    this.#outbox = new Outbox(this.ledger, clock, (gateway, news) =>
      this.#publish(gateway, { kind: 'news', news }),
    );
    this.#endings.push(
      bus.subscribe(
        subjects.work(node),
        (message) => this.#handle(message as ToWorker),
        () => options.onRefused(subjects.work(node)),
      ),
      membership.onChange((change, { node: gateway }) => {
        // The next process of that name numbers its requests from 1.
        this.heard.delete(gateway);
        if (change === 'left') this.#goneMs.set(gateway, options.nowMs());
        else this.#goneMs.delete(gateway);
      }),
    );
    const timer = clock.every(PROGRESS_EVERY_MS, () => this.#tick());
    this.#endings.push(() => timer.end());
  }

  /** Lets running requests finish within the limit, then returns the rest to their gateways. */
  async close(limitMs: number): Promise<void> {
    this.draining = true;
    const { bus, clock } = this.#options;
    if (this.#cancels.size > 0 && bus.state === 'connected') {
      await new Promise<void>((resolve) => {
        this.#whenIdle.push(resolve);
        const timer = clock.after(limitMs, resolve);
        // Without a connection other workers continue them.
        const endState = bus.onState((state) => state !== 'connected' && resolve());
        this.#endings.push(() => timer.end(), endState);
      });
    }
    for (const entry of [...this.#cancels.keys()]) this.#giveBack(entry, 'the worker is shutting down');
    this.#outbox.flush();
    for (const end of this.#endings) end();
  }

  /** What it has of a request that a gateway takes over from another, which is told. */
  handOver({ id, attempt, gateway }: Attempt & { readonly gateway: string }): LedgerEntry | undefined {
    const entry = this.ledger.get(id);
    if (entry !== undefined && entry.gateway !== gateway && entry.attempt < attempt) this.#supersede(entry);
    return entry;
  }

  #supersede(entry: LedgerEntry): void {
    const { id, attempt, gateway } = entry;
    if (!entry.settled) this.#publish(gateway, { kind: 'superseded', id, attempt });
    this.ledger.settle(entry);
    this.#cancels.get(entry)?.();
  }

  #handle(message: ToWorker): void {
    if (message.kind === 'submit') this.#take(message);
    else if (message.kind === 'vocabulary') this.#vocabularies.set(message.model, message.tables);
    else if (message.kind === 'picture') this.#options.pictures?.take(message);
    else this.#handleAttempt(message);
  }

  #handleAttempt(message: Exclude<ToWorker, { kind: 'submit' | 'vocabulary' | 'picture' }>): void {
    const entry = this.ledger.find(message);
    if (entry === undefined) return;
    if (message.kind === 'cancel') this.#cancels.get(entry)?.();
    else if (message.kind === 'settled') this.ledger.settle(message);
    else this.#outbox.add(entry, message.count);
  }

  #take(submission: Submission): void {
    const { id, attempt, gateway, model, ageMs, number, cachedTokens = 0, expected } = submission;
    const { pictures, ...sent } = submission.request;
    const request: EngineRequest = { ...sent, enqueuedMs: this.#options.clock.wallMs() - ageMs };
    this.heard.set(gateway, Math.max(number, this.heard.get(gateway) ?? 0));
    const before = this.ledger.get(id);
    const { priority, enqueuedMs, prompt, answer = [] } = request;
    const promptTokens = prompt.length;
    const entry = this.ledger.open({
      id,
      attempt,
      gateway,
      model,
      priority,
      enqueuedMs,
      promptTokens,
      cachedTokens,
      expected,
      answer,
    });
    if (entry === undefined) {
      // The message that told it of the later attempt was lost.
      if (before?.gateway !== gateway) this.#publish(gateway, { kind: 'superseded', id, attempt });
      return;
    }
    if (before !== undefined && before.gateway !== gateway) this.#supersede(before);
    else if (before !== undefined) this.#cancels.get(before)?.();
    if (this.draining) this.#giveBack(entry, 'the worker is draining');
    else void this.#compute(entry, request, pictures);
  }

  async #compute(entry: LedgerEntry, request: EngineRequest, pictures?: NamedPictures): Promise<void> {
    const leaving = new AbortController();
    let cancel = () => leaving.abort();
    this.#cancels.set(entry, () => cancel());
    let lease: ModelLease | undefined;
    let prepared: PreparedPictures | undefined;
    const { spans } = this.#options;
    const span = spans?.begin(entry, request);
    const id = `${entry.id}#${entry.attempt}`;
    try {
      const acquired = await this.#options.pool.acquire(entry.model, { atOnce: true });
      if (!acquired.ok) return this.#giveBack(entry, acquired.message, acquired.failure !== 'closing');
      lease = acquired.lease;
      const { engine, adapter } = lease.model;
      if (pictures !== undefined) {
        prepared = await this.#prepare(entry, request, pictures, lease.model, leaving.signal);
      }
      if (leaving.signal.aborted) return this.#giveBack(entry, 'it was cancelled');
      if ('grammar' in request && request.grammar !== undefined) {
        const vocabulary = this.#vocabularies.get(entry.model);
        if (vocabulary === undefined) return this.#giveBack(entry, NO_VOCABULARY);
        engine.setVocabulary(vocabulary);
      }
      if (span !== undefined) spans?.submitted(span, engine, id);
      cancel = () => engine.cancel(id);
      for await (const event of engine.submit({ ...request, id, adapter, images: prepared?.images })) {
        if (event.kind === 'token') {
          span?.token();
          this.#note(entry, event);
        } else if (event.error !== undefined && returnable.includes(event.error.code))
          this.#giveBack(entry, event.error.message, event.error.code === 'engine-failed');
        else this.#end(entry, { ...event, id: entry.id });
      }
    } catch (error) {
      if (error instanceof UnreadablePicture) this.#end(entry, unreadable(entry, error));
      else this.#giveBack(entry, messageOf(error), !leaving.signal.aborted);
    } finally {
      prepared?.release();
      lease?.release();
      spans?.ended(id);
      span?.end();
      this.#cancels.delete(entry);
      if (this.#cancels.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    }
  }

  async #prepare(
    entry: LedgerEntry,
    { account }: EngineRequest,
    pictures: NamedPictures,
    { spec: { vision } }: Pick<ServedModel, 'spec'>,
    signal: AbortSignal,
  ): Promise<PreparedPictures> {
    if (vision === undefined || this.#options.pictures === undefined) {
      throw new Error(`${entry.model} reads no images at this worker`);
    }
    const { id, attempt, gateway } = entry;
    entry.preparing = true;
    try {
      return await this.#options.pictures.prepare({
        attempt: { id, attempt },
        pictures,
        account,
        vision,
        signal,
        ask: (picture, offset, bytes) =>
          this.#publish(gateway, { kind: 'picture', id, attempt, picture, offset, bytes }),
      });
    } finally {
      entry.preparing = false;
    }
  }

  #note(entry: LedgerEntry, { token, logprobs, stop }: TokenEvent): void {
    if (entry.endedMs !== undefined) return;
    const heard = entry.tokens.length;
    entry.tokens.push(token);
    entry.stop = stop;
    if (logprobs !== undefined) entry.logprobs.push(logprobs);
    this.#outbox.add(entry, heard);
  }

  #end(entry: LedgerEntry, finish: FinishEvent): void {
    this.#options.onEnd();
    this.ledger.end(entry, { finish, returned: undefined }, this.#options.nowMs());
    this.#outbox.add(entry, entry.tokens.length);
  }

  #giveBack(entry: LedgerEntry, reason: string, suspect = false): void {
    if (entry.endedMs !== undefined) return;
    this.ledger.end(entry, { finish: undefined, returned: { reason, suspect } }, this.#options.nowMs());
    this.#outbox.add(entry, entry.tokens.length);
    this.#cancels.get(entry)?.();
  }

  #tick(): void {
    const nowMs = this.#options.nowMs();
    for (const gateway of this.ledger.gateways()) {
      const goneMs = this.#goneMs.get(gateway);
      if (goneMs === undefined)
        this.#publish(gateway, { kind: 'standing', standing: this.ledger.progress(gateway) });
      else if (nowMs - goneMs > ORPHAN_MS) this.#abandon(gateway);
    }
  }

  #abandon(gateway: string): void {
    for (const [entry, cancel] of this.#cancels) if (entry.gateway === gateway) cancel();
    for (const { id, attempt } of this.ledger.progress(gateway)) this.ledger.settle({ id, attempt });
  }

  #publish(gateway: string, message: GatewayMessage): void {
    const { bus, subjects, node: worker, start } = this.#options;
    bus.publish(subjects.news(gateway), { worker, start, ...message });
  }
}

function unreadable({ id, tokens }: LedgerEntry, { message, parameter }: UnreadablePicture): FinishEvent {
  const error = { code: 'unreadable-picture', message, parameter } as const;
  const counts = { promptTokens: 0, cachedTokens: 0, generatedTokens: tokens.length };
  return { kind: 'finish', id, reason: 'error', error, ...counts };
}
