// What is measured of one request to an engine, from its arrival. When it is over, everyone concerned is told:
// metrics, usage, the feed of finished requests.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import type { GenerationObserver } from '../../generation/generation.ts';
import type { Prompt } from '../../generation/prompt.ts';
import type { TokenUsage } from '../../generation/token-usage.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { Tier } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { kindOf } from '../http/errors.ts';
import { tokensOf } from '../jobs/encode-prompts.ts';
import type { CountedTokens, Resumption } from '../jobs/resumption.ts';
import type { Life } from '../live/request-traces.ts';
import type { RequestLabels } from '../status/metrics.ts';
import type { QueueTicket } from './admission.ts';
import type { Caller } from './auth.ts';
import type { QueuePosition } from './queue-position.ts';
import type { FinishedRequest } from './request-feed.ts';
import type { Stay } from './request-scope.ts';

export interface RecordedRequest {
  readonly context: ServerContext;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly ticket: QueueTicket;
  readonly kind: FinishedRequest['kind'];
  readonly model: ServedModel;
  readonly prompts: readonly Prompt[];
  /** The one the request runs at. */
  readonly tier: Tier;
  /** What the ids of such answers begin with. */
  readonly idMark: string;
  readonly stream: boolean;
  /** How long it waited for its model. */
  readonly loadMs: number;
  /** What the client has come back to. */
  readonly resumption?: Resumption | undefined;
}

/** How long each part took so far, in milliseconds; 0 of what has not begun. */
export interface RequestTimes {
  /** Since the request came. */
  readonly totalMs: number;
  readonly loadMs: number;
  /** From the engine's first work on the prompt to the first token: waiting in its queue is no part of it. */
  readonly promptMs: number;
  /** Since the first token. */
  readonly answerMs: number;
}

/** What a request has used, as far as it has come. */
export interface Spent {
  readonly usage: TokenUsage;
  /** Tokens of the longest answer; 0 where there is none. */
  readonly longestAnswer: number;
  /** Where it has ended and the engine must still say how much was computed: resolves when it has. */
  readonly released: Promise<void> | undefined;
}

/** How long the end of an answer waits for the books. */
const CHARGE_MS = 250;
/** How long an engine may take to say how far it had come with a request that was cancelled. */
const RELEASE_MS = 5000;

/**
 * Runs what is measured, and settles however it ends: with what was computed. Nobody waits until a lost engine says what
 * that was.
 */
export async function recorded<Result>(
  record: RequestRecord,
  spent: Spent,
  place: Pick<Stay, 'permit' | 'endAfter'>,
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
      place.permit.settle(record.close(spent), Date.now());
      charged();
    };
    const { released } = spent;
    if (released === undefined) settle();
    else place.endAfter(Promise.race([released, sleep(RELEASE_MS, undefined, { ref: false })]).then(settle));
  }
}

export class RequestRecord implements GenerationObserver {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly arrivedMs: number;
  readonly #of: RecordedRequest;
  #life: Life | undefined;
  readonly #submitted: string[] = [];
  /** When the last token of each choice came. */
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
    this.id = kept?.answerId ?? of.idMark + randomBytes(16).toString('hex');
    this.arrivedMs = kept?.arrivedMs ?? Date.now() - this.#elapsedMs();
    const { context, model } = of;
    context.metrics.watch(model);
    if (model.direct) context.metrics.fellBack(model.name);
  }

  submitted(requestId: string): void {
    this.#submitted.push(requestId);
    this.#submittedMs ??= this.#elapsedMs();
    this.#of.context.lives.submitted(this.#begun(), requestId, this.#of.model.engine);
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

  /** Where it is while it waits, as far as is known; see docs/api.md. */
  get place(): QueuePosition | undefined {
    if (this.#admittedMs !== undefined || this.#firstTokenMs !== undefined) return undefined;
    return this.#of.context.lives.placeOf(this.#of.model.engine, this.#submitted);
  }

  /** How long it waited for the engine to begin with it, once it has. */
  get queuedMs(): number | undefined {
    if (this.#admittedMs === undefined || this.#submittedMs === undefined) return undefined;
    return Math.max(0, this.#admittedMs - this.#submittedMs);
  }

  /** All its prompts are computed: it waits no longer. */
  prompted(): void {
    this.#of.ticket.start();
  }

  firstToken(): void {
    this.#firstTokenMs = this.#elapsedMs();
    this.prompted();
    const { context } = this.#of;
    context.metrics.firstToken(this.#labels, this.#firstTokenMs);
    context.lives.firstToken(this.#begun());
    context.firstToken.add(this.#firstTokenMs, performance.now());
  }

  token(index: number): void {
    const nowMs = performance.now();
    const lastMs = this.#tokenMs[index];
    if (lastMs !== undefined) this.#of.context.betweenTokens.add(nowMs - lastMs, nowMs);
    else this.#of.ticket.begin();
    this.#tokenMs[index] = nowMs;
    this.#begun().generatedTokens++;
  }

  answered(reasons: readonly FinishReason[]): void {
    this.#reasons = reasons;
  }

  failed(error: unknown): void {
    this.#outcome = kindOf(error);
  }

  /**
   * Before the client hears of the end: where it may come back by another server, this one may die any time, and nobody would
   * count an answer that is not asked for again.
   */
  async charge(usage: TokenUsage): Promise<void> {
    const { context } = this.#of;
    if (context.archive === undefined) return;
    this.#count(usage, false);
    await context.usage?.written(CHARGE_MS);
  }

  /** How many tokens count. */
  close({ usage, longestAnswer }: Spent): number {
    const { context, caller, kind, model, request, stream } = this.#of;
    const totalMs = this.#elapsedMs();
    for (const requestId of this.#submitted) context.metrics.forget(requestId);
    context.metrics.used(model.name, usage);
    if (this.#outcome === 'ok') {
      const decodeMs = totalMs - (this.#firstTokenMs ?? totalMs);
      context.metrics.completed(this.#labels, longestAnswer, decodeMs, totalMs);
    }
    const failed = this.#outcome !== 'ok' && this.#outcome !== 'client_left';
    this.#count(usage, failed);
    context.lives.ended(this.#begun(), { usage, outcome: this.#outcome, reasons: this.#reasons });
    context.feed.tell({
      kind,
      requestId: request.id,
      model: model.name,
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

  /** What a client comes back to was counted before, as far as it had come: only the rest is. */
  #uncounted(usage: TokenUsage): CountedTokens {
    const counted = this.#of.resumption?.kept.counted;
    return counted === undefined ? usage : restOf(usage, counted);
  }

  #count(usage: TokenUsage, failed: boolean): void {
    if (this.#isCounted) return;
    this.#isCounted = true;
    const { context, caller, resumption, kind } = this.#of;
    if (resumption?.kept.counted !== undefined) {
      context.usage?.record(caller.keyId, { ...this.#uncounted(usage), failed }, Date.now());
    } else if (context.archive !== undefined && kind === 'completion') {
      context.usage?.recordOnce(this.id, caller.keyId, { ...usage, failed }, Date.now());
    } else {
      context.usage?.record(caller.keyId, { ...usage, failed }, Date.now());
    }
  }

  /** One that is refused before it begins has no life. */
  #begun(): Life {
    const { context, kind, model, tier, caller, request, prompts } = this.#of;
    this.#life ??= context.lives.begin({
      kind,
      requestId: request.id,
      model: model.name,
      tier,
      keyId: caller.keyId,
      keyName: caller.name,
      address: request.ip,
      arrivedMs: request.arrivedMs,
      promptTokens: tokensOf(prompts),
      prompt: context.settings.logPrompts
        ? prompts.map(({ text, ids }) => text ?? ids.join(' ')).join('\n')
        : undefined,
    });
    return this.#life;
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
