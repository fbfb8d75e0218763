// A request that a gateway has not answered yet: the tokens it has, who works on it, and in which attempt. Pure.

import type { EngineRequest, FinishEvent, RequestEvent } from '../../engine/request.ts';
import type { AnswerNews, Attempt, NodeStatus } from '../messages.ts';

/** Workers that gave it back, after which it is given up: it may be its own fault. */
const MOST_RETURNS = 3;
/** A worker that gave it back is not asked again for so long. */
const AVOID_MS = 5000;

export interface AskedModel {
  readonly name: string;
  /** Of its weights. */
  readonly key: string;
}

/** What a worker has of an answer. */
export interface FoundAnswer {
  readonly attempt: number;
  readonly tokens: readonly number[];
  readonly finish?: FinishEvent | undefined;
  readonly determinism: string;
}

/** Who gets it. */
export interface ChosenWorker {
  readonly status: NodeStatus;
  readonly determinism: string;
  /** Of what this gateway has given that worker. */
  readonly number: number;
  /** What that worker probably has of it in its cache. */
  readonly cachedTokens: number;
}

export class OpenAnswer {
  readonly model: AskedModel;
  readonly request: EngineRequest;
  readonly tokens: number[];
  worker: Pick<NodeStatus, 'node' | 'start'> | undefined;
  /** Higher than those of whoever had this request before. */
  attempt = Date.now();
  /** Once it has a token, it can go on only where the same bits come out. */
  determinism: string | undefined;
  /** Of the gateway's requests to this worker. */
  number = 0;
  /** What this worker probably has of it in its cache. */
  cachedTokens = 0;
  sentMs = 0;
  heardMs = 0;
  waitingSinceMs: number;
  cancelled = false;
  /** Workers are asked what they still have of it. */
  recovering = false;
  readonly #avoided = new Map<string, number>();
  #returns = 0;
  #candidate: string | undefined;

  constructor(model: AskedModel, request: EngineRequest, nowMs: number) {
    this.model = model;
    this.request = request;
    this.tokens = [...(request.answer ?? [])];
    this.waitingSinceMs = nowMs;
  }

  get current(): Attempt {
    return { id: this.request.id, attempt: this.attempt };
  }

  get needsVocabulary(): boolean {
    return 'grammar' in this.request && this.request.grammar !== undefined;
  }

  get isHopeless(): boolean {
    return this.#returns >= MOST_RETURNS;
  }

  avoids(node: string, nowMs: number): boolean {
    return (this.#avoided.get(node) ?? 0) > nowMs;
  }

  /** `suspect`: it may have been this request's own fault. */
  returnedBy(node: string, suspect: boolean, nowMs: number): void {
    this.#avoided.set(node, nowMs + AVOID_MS);
    if (suspect) this.#returns += 1;
  }

  give({ status, determinism, number, cachedTokens }: ChosenWorker, nowMs: number): void {
    this.number = number;
    this.cachedTokens = cachedTokens;
    this.worker = { node: status.node, start: status.start };
    this.attempt += 1;
    this.#candidate = determinism;
    this.heardMs = nowMs;
  }

  /** Goes on from the longest answer that somebody has; an attempt of this gateway counts more than all before. */
  resume(found: readonly FoundAnswer[]): RequestEvent[] {
    this.attempt = Math.max(this.attempt, ...found.map(({ attempt }) => attempt));
    // Log-probabilities are not kept: what was asked for with them is computed again.
    const known = 'parameters' in this.request && this.request.parameters.logprobs === undefined ? found : [];
    const [longest] = [...known].sort((a, b) => b.tokens.length - a.tokens.length);
    if (longest === undefined) return [];
    const { attempt, tokens, determinism, finish } = longest;
    const { id } = this.request;
    this.determinism = determinism;
    const events = this.accept({ id, attempt, from: 0, tokens });
    if (events === 'gap') return [];
    const isWhole = finish?.reason === 'stop' || finish?.reason === 'length';
    return isWhole ? [...events, { ...finish, id }] : events;
  }

  asItStands(): EngineRequest {
    if (this.request.pooling !== undefined || this.tokens.length === 0) return this.request;
    return { ...this.request, answer: [...this.tokens] };
  }

  /** The events of what is new; those that were there before are dropped. */
  accept({ from, tokens, logprobs }: AnswerNews): RequestEvent[] | 'gap' {
    if (from > this.tokens.length) return 'gap';
    const fresh = tokens.slice(this.tokens.length - from);
    const skipped = tokens.length - fresh.length;
    if (fresh.length > 0) {
      this.determinism ??= this.#candidate;
      this.#returns = 0;
    }
    const { id } = this.request;
    this.tokens.push(...fresh);
    return fresh.map((token, i) => {
      const own = logprobs?.[skipped + i];
      return { kind: 'token', id, token, ...(own === undefined ? {} : { logprobs: own }) };
    });
  }

  cancelledEvent(): FinishEvent {
    return {
      kind: 'finish',
      id: this.request.id,
      reason: 'cancelled',
      promptTokens: this.tokens.length > 0 ? this.request.prompt.length : 0,
      cachedTokens: 0,
      generatedTokens: this.tokens.length,
    };
  }
}
