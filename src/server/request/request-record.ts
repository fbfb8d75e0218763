// Measures one request to an engine, from its arrival, and reports it when it is over: to metrics, usage, its trace and the
// feed of finished requests.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GenerationObserver, TokenUsage } from '../../generation/answer-source.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { Tier } from '../../store/key-record.ts';
import type { TraceHeaders } from '../../tracing/trace-context.ts';
import type { CountedTokens } from '../context.ts';
import { kindOf } from '../http/errors.ts';
import type { Resumption } from '../jobs/resumption.ts';
import type { UpstreamUse } from '../live/live-event.ts';
import type { Trace } from '../live/request-traces.ts';
import type { RequestLabels } from '../status/metrics.ts';
import { AnswerSpan } from './answer-span.ts';
import type { QueuePosition } from './queue-position.ts';
import type { FinishedRequest } from './request-feed.ts';
import type { RequestScope } from './request-scope.ts';

interface RecordedRequest
  extends Pick<RequestScope, 'context' | 'caller' | 'request' | 'queueEntry' | 'loadMs'> {
  readonly kind: FinishedRequest['kind'];
  readonly model: Pick<ServedModel, 'name'> & Partial<Pick<ServedModel, 'engine' | 'direct'>>;
  /** Set where an upstream answers. */
  readonly upstream?: UpstreamUse | undefined;
  readonly promptTokens: number;
  /** As it is shown where prompts are logged. */
  readonly promptText: () => string;
  readonly tier: Tier;
  readonly idMark: string;
  /** Where it is known before the answer begins. */
  readonly answerId?: string | undefined;
  readonly stream: boolean;
  readonly resumption?: Resumption | undefined;
}

/** How long each part took so far, in milliseconds; 0 for a part that has not begun. */
export interface RequestTimes {
  readonly totalMs: number;
  readonly loadMs: number;
  /** From the engine's first step for the prompt to the first token, without the time in the queue. */
  readonly promptMs: number;
  readonly answerMs: number;
}

interface Spent {
  readonly usage: TokenUsage;
  /** Tokens of the longest answer; 0 where there is no answer. */
  readonly longestAnswer: number;
  /** Set where the request has ended but the engine must still report how much it computed; resolves when it has. */
  readonly released: Promise<void> | undefined;
}

/** How long the end of an answer waits until its usage is written. */
const CHARGE_MS = 250;
const RELEASE_MS = 5000;

/**
 * Runs the request and settles its permit with what was computed, however it ends. The client does not wait for an engine
 * that must still report what that was.
 */
export async function recorded<Result>(
  record: RequestRecord,
  spent: Spent,
  scope: Pick<RequestScope, 'permit' | 'settleAfter'>,
  run: () => Promise<Result>,
  charged: () => void = () => {},
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    record.failed(error);
    throw error;
  } finally {
    const settle = () => {
      scope.permit.settle(record.close(spent), Date.now());
      charged();
    };
    const { released } = spent;
    if (released === undefined) settle();
    else
      scope.settleAfter(Promise.race([released, sleep(RELEASE_MS, undefined, { ref: false })]).then(settle));
  }
}

export class RequestRecord implements GenerationObserver {
  readonly id: string;
  /** When its client first sent it, to whichever server: for people. */
  readonly arrivedMs: number;
  /** When it arrived here. */
  readonly enqueuedMs: number;
  readonly #of: RecordedRequest;
  /** Undefined unless spans are exported. */
  readonly #span: AnswerSpan | undefined;
  #trace: Trace | undefined;
  readonly #submitted: string[] = [];
  readonly #tokenMs: number[] = [];
  #submittedMs: number | undefined;
  #admittedMs: number | undefined;
  #firstTokenMs: number | undefined;
  #outcome = 'ok';
  #isCounted = false;
  #reasons: readonly FinishReason[] = [];

  constructor(of: RecordedRequest) {
    this.#of = of;
    const { kept } = of.resumption ?? {};
    this.id = kept?.answerId ?? of.answerId ?? of.idMark + randomBytes(16).toString('hex');
    this.enqueuedMs = Date.now() - this.#elapsedMs();
    this.arrivedMs = kept?.arrivedMs ?? this.enqueuedMs;
    const { context, model } = of;
    this.#span = context.tracer && new AnswerSpan(context.tracer, of.request);
    const { name, engine, direct } = model;
    if (engine !== undefined) context.metrics.subscribe({ name, engine });
    if (direct) context.metrics.fellBack(name);
  }

  get engineTrace(): TraceHeaders | undefined {
    return this.#span?.engineTrace;
  }

  get upstreamTrace(): TraceHeaders | undefined {
    return this.#span?.upstreamTrace;
  }

  submitted(requestId: string): void {
    this.#submitted.push(requestId);
    this.#submittedMs ??= this.#elapsedMs();
    this.#of.context.traces.submitted(this.#begun(), requestId, this.#of.model.engine);
    this.#of.context.metrics.submitted(requestId, this.#labels, (atMs) => {
      this.#admittedMs ??= atMs - this.#of.request.arrivedMs;
    });
  }

  get times(): RequestTimes {
    const totalMs = this.#elapsedMs();
    const answeredMs = this.#firstTokenMs ?? totalMs;
    const begunMs = Math.max(this.#admittedMs ?? 0, this.#submittedMs ?? totalMs);
    return {
      totalMs,
      loadMs: this.#of.loadMs,
      promptMs: Math.max(0, answeredMs - begunMs),
      answerMs: totalMs - answeredMs,
    };
  }

  /** Its position in the queue while it waits, as far as is known; see docs/api.md. */
  get position(): QueuePosition | undefined {
    if (this.#admittedMs !== undefined || this.#firstTokenMs !== undefined) return undefined;
    const { context, model } = this.#of;
    return model.engine && context.traces.queuePositionOf(model.engine, this.#submitted);
  }

  get queuedMs(): number | undefined {
    if (this.#admittedMs === undefined || this.#submittedMs === undefined) return undefined;
    return Math.max(0, this.#admittedMs - this.#submittedMs);
  }

  /** Called when all its prompts are computed: the request waits no longer. */
  prompted(): void {
    this.#of.queueEntry.start();
  }

  firstToken(): void {
    this.#firstTokenMs = this.#elapsedMs();
    this.prompted();
    const { context } = this.#of;
    context.metrics.firstToken(this.#labels, this.#firstTokenMs);
    context.traces.firstToken(this.#begun());
    context.firstToken.add(this.#firstTokenMs, performance.now());
  }

  token(index: number): void {
    const nowMs = performance.now();
    const lastMs = this.#tokenMs[index];
    this.#of.context.history.token();
    if (lastMs !== undefined) this.#of.context.betweenTokens.add(nowMs - lastMs, nowMs);
    else this.#of.queueEntry.begin();
    this.#tokenMs[index] = nowMs;
    this.#begun().generatedTokens++;
  }

  answered(reasons: readonly FinishReason[]): void {
    this.#reasons = reasons;
  }

  /** Another connection has the request now, here or at another server. */
  get isSuperseded(): boolean {
    return this.#outcome === 'superseded';
  }

  /** The server ended it because it shuts down. */
  get isPaused(): boolean {
    return this.#outcome === 'shutting_down';
  }

  failed(error: unknown): void {
    this.#outcome = kindOf(error);
  }

  /**
   * Writes the usage before the client receives the end of its answer. Where clients may resume at another server, this one
   * may die at any time, and an answer that is never resumed would never be counted.
   */
  async charge(usage: TokenUsage): Promise<void> {
    const { context } = this.#of;
    if (context.archive === undefined) return;
    this.#count(usage, false);
    await this.charged();
  }

  /** Resolves when what was counted is written, or cannot be now. */
  async charged(): Promise<void> {
    await this.#of.context.usage?.written(CHARGE_MS);
  }

  close({ usage, longestAnswer }: Spent): number {
    const { context, caller, kind, model, request, stream, upstream } = this.#of;
    const totalMs = this.#elapsedMs();
    for (const requestId of this.#submitted) context.metrics.forget(requestId);
    context.metrics.used(model.name, usage, this.times);
    context.history.prompt(usage.promptTokens);
    if (this.#outcome === 'ok') {
      const decodeMs = totalMs - (this.#firstTokenMs ?? totalMs);
      context.metrics.completed(this.#labels, longestAnswer, decodeMs, totalMs);
    }
    if (upstream !== undefined) context.metrics.answeredBy(upstream, model.name, this.#outcome);
    const failed = !['ok', 'client_left', 'superseded'].includes(this.#outcome);
    this.#count(usage, failed);
    context.traces.ended(this.#begun(), { usage, outcome: this.#outcome, reasons: this.#reasons });
    this.#endSpan(usage, failed);
    context.feed.publish({
      kind,
      requestId: request.id,
      model: model.name,
      ...(upstream === undefined ? {} : { upstream }),
      keyId: caller.keyId,
      address: request.ip,
      tier: caller.tier,
      stream,
      outcome: this.#outcome,
      finishReasons: this.#reasons,
      firstTokenMs: this.#firstTokenMs,
      totalMs,
      ...usage,
    });
    const { promptTokens, completionTokens } = this.#uncounted(usage);
    return promptTokens + completionTokens;
  }

  #endSpan(usage: TokenUsage, failed: boolean): void {
    const { kind, model, upstream, request } = this.#of;
    const arrivedMs = Date.now() - (performance.now() - request.arrivedMs);
    const at = (ms: number | undefined) => (ms === undefined ? undefined : arrivedMs + ms);
    this.#span?.end({
      kind,
      answerId: this.id,
      model: model.name,
      upstream,
      isComputedHere: model.engine?.monitor !== undefined,
      startMs: arrivedMs,
      submittedMs: at(this.#submittedMs),
      admittedMs: at(this.#admittedMs),
      firstTokenMs: at(this.#firstTokenMs),
      endMs: arrivedMs + this.#elapsedMs(),
      usage,
      reasons: this.#reasons,
      outcome: this.#outcome,
      failed,
    });
  }

  /** What a resumed request had used before was taken from the key's limits then; only the rest is now. */
  #uncounted(usage: TokenUsage): CountedTokens {
    const counted = this.#of.resumption?.kept.counted;
    return counted === undefined ? usage : restOf(usage, counted);
  }

  #count(usage: TokenUsage, failed: boolean): void {
    if (this.#isCounted) return;
    this.#isCounted = true;
    const { context, caller, kind } = this.#of;
    if (context.archive !== undefined && kind === 'completion') {
      context.usage?.recordOnce(this.id, caller.keyId, { ...usage, failed }, Date.now());
    } else {
      context.usage?.record(caller.keyId, { ...usage, failed }, Date.now());
    }
  }

  /** The trace begins with the request's first event, so that a refused request has none. */
  #begun(): Trace {
    const { context, kind, model, tier, caller, request, promptTokens, promptText, upstream } = this.#of;
    this.#trace ??= context.traces.begin({
      kind,
      requestId: request.id,
      model: model.name,
      ...(upstream === undefined ? {} : { upstream }),
      tier,
      keyId: caller.keyId,
      keyName: caller.name,
      address: request.ip,
      arrivedMs: request.arrivedMs,
      promptTokens,
      prompt: context.settings.logPrompts ? promptText() : undefined,
    });
    return this.#trace;
  }

  get #labels(): RequestLabels {
    const { model, tier } = this.#of;
    return { model: model.name, tier };
  }

  #elapsedMs(): number {
    return performance.now() - this.#of.request.arrivedMs;
  }
}

function restOf(usage: TokenUsage, counted: CountedTokens): CountedTokens {
  const rest = (all: number, before: number) => Math.max(0, all - before);
  return {
    promptTokens: rest(usage.promptTokens, counted.promptTokens),
    cachedTokens: rest(usage.cachedTokens, counted.cachedTokens),
    completionTokens: rest(usage.completionTokens, counted.completionTokens),
  };
}
