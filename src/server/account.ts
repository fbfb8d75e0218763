// Measures one completion request from its arrival, and tells everyone concerned when it is over: metrics,
// usage, the feed of finished requests.

import { randomBytes } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Tier } from '../store/key-record.ts';
import type { QueueTicket } from './admission.ts';
import type { Caller } from './auth.ts';
import type { AnswerReason, CompletionRun, RunObserver, RunUsage } from './completion-run.ts';
import type { ServerContext } from './context.ts';
import { kindOf } from './errors.ts';
import type { RequestLabels } from './metrics.ts';

export interface AccountHolder {
  readonly context: ServerContext;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly ticket: QueueTicket;
  readonly modelName: string;
  /** The one the request runs at. */
  readonly tier: Tier;
  /** What the ids of such answers begin with. */
  readonly idMark: string;
  readonly stream: boolean;
}

export class Account implements RunObserver {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly arrivedMs: number;
  readonly #holder: AccountHolder;
  readonly #submitted: string[] = [];
  #firstTokenMs: number | undefined;
  #outcome = 'ok';
  #reasons: readonly AnswerReason[] = [];

  constructor(holder: AccountHolder) {
    this.#holder = holder;
    this.id = holder.idMark + randomBytes(16).toString('hex');
    this.arrivedMs = Date.now() - this.#elapsedMs();
  }

  submitted(sequence: string): void {
    this.#submitted.push(sequence);
    this.#holder.context.metrics.submitted(sequence, this.#labels);
  }

  firstToken(): void {
    this.#firstTokenMs = this.#elapsedMs();
    this.#holder.ticket.start();
    this.#holder.context.metrics.firstToken(this.#labels, this.#firstTokenMs);
  }

  answered(reasons: readonly AnswerReason[]): void {
    this.#reasons = reasons;
  }

  failed(error: unknown): void {
    this.#outcome = kindOf(error);
  }

  close(run: CompletionRun): RunUsage {
    const { context, caller, modelName, request, stream } = this.#holder;
    const { usage } = run;
    const totalMs = this.#elapsedMs();
    for (const sequence of this.#submitted) context.metrics.forget(sequence);
    context.metrics.used(modelName, usage);
    if (this.#outcome === 'ok') {
      const decodeMs = totalMs - (this.#firstTokenMs ?? totalMs);
      context.metrics.completed(this.#labels, run.longestAnswer, decodeMs, totalMs);
    }
    const failed = this.#outcome !== 'ok' && this.#outcome !== 'client_left';
    context.usage?.record(caller.keyId, { ...usage, failed }, Date.now());
    context.feed.tell({
      requestId: request.id,
      model: modelName,
      keyId: caller.keyId,
      tier: caller.tier,
      stream,
      outcome: this.#outcome,
      finishReasons: this.#reasons,
      firstTokenMs: this.#firstTokenMs,
      totalMs,
      ...usage,
    });
    return usage;
  }

  get #labels(): RequestLabels {
    const { modelName, tier } = this.#holder;
    return { model: modelName, tier };
  }

  #elapsedMs(): number {
    return performance.now() - this.#holder.request.arrivedMs;
  }
}
