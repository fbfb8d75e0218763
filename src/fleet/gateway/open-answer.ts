// A request that a gateway has not answered yet: its tokens so far, its worker, and its attempt.

import { type EngineRequest, type FinishEvent, isAnswered, type RequestEvent } from '../../engine/request.ts';
import type { StopToken } from '../../sampling/stop-condition.ts';
import type { AnswerUpdate, Attempt, NodeStatus } from '../messages.ts';
import type { TokensByTier } from '../routing/expected-prefix.ts';

/** After this many suspect returns a request fails: it may cause the failures itself. */
const MOST_RETURNS = 3;
/** More than one makes. */
const ATTEMPTS_OF_A_GATEWAY = 2 ** 20;
/** A worker that returned the request is avoided for this long. */
const AVOID_MS = 5000;

export interface AskedModel {
  readonly name: string;
  readonly key: string;
  /** What it reads images with. */
  readonly vision?: string | undefined;
}

export interface FoundAnswer {
  readonly attempt: number;
  readonly tokens: readonly number[];
  readonly stop?: StopToken | undefined;
  readonly finish?: FinishEvent | undefined;
  readonly determinism: string;
}

export interface ChosenWorker {
  readonly status: NodeStatus;
  readonly determinism: string;
  readonly number: number;
  readonly expected: TokensByTier;
}

export class OpenAnswer {
  readonly model: AskedModel;
  readonly request: EngineRequest;
  readonly tokens: number[];
  worker: Pick<NodeStatus, 'node' | 'start'> | undefined;
  /** Counted from above those of gateways that had it before. */
  attempt: number;
  /** Once it has a token, it can continue only on workers that compute the same bits. */
  determinism: string | undefined;
  number = 0;
  /** Of the prompt, at its worker. */
  expected: TokensByTier | undefined;
  sentMs = 0;
  /** The worker that the directory names for it. */
  notedAt: string | undefined;
  /** How often it was sent to its worker since that acknowledged something of it. */
  unacknowledged = 0;
  /** When a worker last acknowledged it; when it came, before one has. */
  heardMs: number;
  /** Whether a worker has acknowledged it. */
  isPlaced = false;
  /** Resolves when a worker acknowledges it: never, where it ends before. */
  readonly accepted: Promise<void>;
  cancelled = false;
  recovering = false;
  readonly #avoided = new Map<string, number>();
  readonly #bornMs: number;
  #returns = 0;
  #candidate: string | undefined;
  #accept: () => void = () => {};

  /** `wallMs`: by the clock that says when the request came. */
  constructor(
    model: AskedModel,
    request: EngineRequest,
    { nowMs, wallMs }: { readonly nowMs: number; readonly wallMs: number },
  ) {
    this.model = model;
    this.request = request;
    this.tokens = [...(request.answer ?? [])];
    this.attempt = (request.takeover ?? 0) * ATTEMPTS_OF_A_GATEWAY;
    this.heardMs = nowMs;
    this.accepted = new Promise((resolve) => {
      this.#accept = resolve;
    });
    this.#bornMs = nowMs - Math.max(0, wallMs - request.enqueuedMs);
  }

  ageMs(nowMs: number): number {
    return nowMs - this.#bornMs;
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

  /** Workers that have returned it lately. */
  avoided(nowMs: number): string[] {
    return [...this.#avoided].filter(([, untilMs]) => untilMs > nowMs).map(([node]) => node);
  }

  /** `suspect`: the request may have caused the failure. */
  returnedBy(node: string, suspect: boolean, nowMs: number): void {
    this.#avoided.set(node, nowMs + AVOID_MS);
    if (suspect) this.#returns += 1;
  }

  give({ status, determinism, number, expected }: ChosenWorker): void {
    this.number = number;
    this.expected = expected;
    this.worker = { node: status.node, start: status.start };
    this.attempt += 1;
    this.#candidate = determinism;
    this.unacknowledged = 0;
  }

  /** `isOpen`: the worker has it, and may still refuse it. */
  acknowledged(nowMs: number, isOpen = false): void {
    this.heardMs = nowMs;
    this.unacknowledged = 0;
    if (isOpen) return;
    this.isPlaced = true;
    this.#accept();
  }

  /** Continues what a worker has of the answer, under a higher attempt than all before. */
  resume(found: FoundAnswer | undefined): RequestEvent[] {
    if (found === undefined) return [];
    const { attempt, tokens, determinism, stop, finish } = found;
    this.attempt = Math.max(this.attempt, attempt);
    // Log-probabilities are not kept: an answer with them is computed again.
    const isKnown = 'parameters' in this.request && this.request.parameters.logprobs === undefined;
    if (!isKnown) return [];
    const { id } = this.request;
    this.determinism = determinism;
    const events = this.accept({ id, attempt, from: 0, tokens, stop });
    if (events === 'gap') return [];
    const isWhole = finish?.reason === 'stop' || finish?.reason === 'length';
    return isWhole ? [...events, { ...finish, id }] : events;
  }

  asItStands(): EngineRequest {
    if (!isAnswered(this.request) || this.tokens.length === 0) return this.request;
    return { ...this.request, answer: [...this.tokens] };
  }

  /** The events of tokens that are new; known ones are dropped. */
  accept({ from, tokens, logprobs, stop }: AnswerUpdate): RequestEvent[] | 'gap' {
    if (from > this.tokens.length) return 'gap';
    const fresh = tokens.slice(this.tokens.length - from);
    const skipped = tokens.length - fresh.length;
    if (fresh.length > 0) {
      this.determinism ??= this.#candidate;
      this.#returns = 0;
    }
    const { id } = this.request;
    // One by one: as arguments of a call, a long answer would not fit on the stack.
    for (const token of fresh) this.tokens.push(token);
    return fresh.map((token, i) => {
      const own = logprobs?.[skipped + i];
      return {
        kind: 'token',
        id,
        token,
        ...(own === undefined ? {} : { logprobs: own }),
        ...(stop === undefined || i < fresh.length - 1 ? {} : { stop }),
      };
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
