// One request's answers from an upstream, as events that every protocol of this server writes. Usage is what the upstream
// reports; where it reports none, because it does not or because its answer broke off, what was delivered is estimated.

import type { GenerationPart } from '../generation/answer-parts.ts';
import type { AnswerSource, GenerationObserver, TokenUsage } from '../generation/answer-source.ts';
import type { GenerationEvent } from '../generation/generation-event.ts';
import { type AskOptions, askUpstream } from './ask.ts';
import type { UpstreamModel } from './upstream.ts';
import { UpstreamError } from './upstream-error.ts';
import {
  estimateTokens,
  type UpstreamEvent,
  type UpstreamRequest,
  type UpstreamUsage,
} from './upstream-request.ts';

export interface RemoteRequest {
  readonly id: string;
  readonly model: UpstreamModel;
  readonly request: UpstreamRequest;
  /** Lower goes first where the upstream's turns are limited. */
  readonly priority: number;
  /** Servers that the request has come through, this one included. */
  readonly via: string;
  readonly trace?: AskOptions['trace'];
  /** Set where only the limits of the key say how long answers may be. */
  readonly budget: { take(): boolean | Promise<boolean> } | undefined;
}

interface OpenedAnswer {
  readonly events: AsyncGenerator<UpstreamEvent, void, void>;
  readonly endTurn: () => void;
}

/** Longer pieces are several tokens. */
const MOST_TOKEN_CHARACTERS = 32;

class Choice {
  readonly index: number;
  tokens = 0;
  calls = 0;
  /** Of the last call. */
  arguments = '';
  end: Extract<UpstreamEvent, { kind: 'finish' }> | undefined;

  constructor(index: number) {
    this.index = index;
  }

  take(parts: readonly GenerationPart[]): number {
    let characters = 0;
    for (const part of parts) {
      if (part.kind === 'call') {
        this.calls++;
        this.arguments = '';
      } else characters += part.text.length;
      if (part.kind === 'arguments') this.arguments += part.text;
    }
    const tokens = characters <= MOST_TOKEN_CHARACTERS ? 1 : estimateTokens(characters);
    this.tokens += tokens;
    return tokens;
  }

  get finish(): GenerationEvent {
    const { index, calls, end } = this;
    const reason = end?.reason ?? 'length';
    const isOpen = reason === 'length' && calls > 0 && !isJson(this.arguments);
    return {
      kind: 'finish',
      index,
      reason,
      calls,
      stop: end?.stop,
      ...(isOpen ? { hasOpenCall: true } : {}),
    };
  }
}

export class RemoteGeneration implements AnswerSource {
  readonly #asked: RemoteRequest;
  readonly #signal: AbortSignal;
  readonly #observer: GenerationObserver;
  readonly #choices: readonly Choice[];
  #opened: OpenedAnswer | undefined;
  #reported: UpstreamUsage | undefined;
  #begun = false;
  /** The upstream reads the prompt, or has: it counts also where nobody waits for the answer. */
  #isSent = false;
  /** The limits of the key ended the answers. */
  #isCutShort = false;
  #accept = () => {};
  readonly accepted = new Promise<void>((resolve) => {
    this.#accept = resolve;
  });
  /** The upstream reports what it has done at once, or never. */
  readonly released = undefined;

  constructor(asked: RemoteRequest, signal: AbortSignal, observer: GenerationObserver) {
    this.#asked = asked;
    this.#signal = signal;
    this.#observer = observer;
    this.#choices = Array.from({ length: asked.request.answers }, (_, index) => new Choice(index));
  }

  get usage(): TokenUsage {
    const delivered = this.#choices.reduce((sum, { tokens }) => sum + tokens, 0);
    const promptTokens = this.#isSent ? this.#asked.request.promptTokens : 0;
    const reported = this.#reported ?? { promptTokens, cachedTokens: 0, completionTokens: delivered };
    // What is reported at the beginning of a stream does not know how far it came.
    return this.#isWhole
      ? reported
      : { ...reported, completionTokens: Math.max(delivered, reported.completionTokens) };
  }

  get #isWhole(): boolean {
    return this.#choices.every(({ end }) => end !== undefined);
  }

  get longestAnswer(): number {
    const longest = this.#choices.reduce((most, { tokens }) => Math.max(most, tokens), 0);
    return this.#choices.length === 1 ? this.usage.completionTokens : longest;
  }

  /** An upstream says it of all prompts together. */
  cachedTokensOf(prompt: number): number {
    return prompt === 0 ? (this.#reported?.cachedTokens ?? 0) : 0;
  }

  /** Prefixes are saved of models that are here. */
  slotOf(): undefined {}

  /** Sends the request; resolves when the upstream has taken it on. Its events must then be read. */
  async open(): Promise<void> {
    const { model, request, priority, via, trace } = this.#asked;
    const signal = this.#signal;
    const endTurn = await model.upstream.turns.take(priority, signal);
    const events = askUpstream(model, request, { signal, via, trace });
    this.#isSent = true;
    try {
      await events.next();
    } catch (error) {
      const isRefused =
        error instanceof UpstreamError && error.failure !== 'timeout' && error.failure !== 'cut';
      if (isRefused) this.#isSent = false;
      endTurn();
      throw error;
    }
    this.#opened = { events, endTurn };
    this.#accept();
  }

  async *events(): AsyncGenerator<GenerationEvent, void, void> {
    this.#observer.submitted(this.#asked.id);
    if (this.#opened === undefined) await this.open();
    const { events, endTurn } = this.#opened as OpenedAnswer;
    try {
      for await (const event of events) {
        if (event.kind === 'usage') this.#reported = event.usage;
        else if (event.kind === 'finish') this.#choice(event.index).end = event;
        else if (event.kind === 'parts' && !(yield* this.#pieces(event))) break;
      }
      // Held back until here: the end of an answer is sent with its usage.
      yield* this.#finish();
    } finally {
      endTurn();
    }
  }

  /** False where the limits of the key leave no more. */
  async *#pieces({
    index,
    parts,
  }: Extract<UpstreamEvent, { kind: 'parts' }>): AsyncGenerator<GenerationEvent, boolean, void> {
    const { budget } = this.#asked;
    const choice = this.#choice(index);
    const tokens = choice.take(parts);
    for (let token = 0; token < tokens; token++) {
      if (budget === undefined || (await budget.take())) continue;
      choice.tokens -= tokens;
      this.#isCutShort = true;
      return false;
    }
    if (!this.#begun) this.#observer.firstToken();
    this.#begun = true;
    this.#observer.token(index);
    yield { kind: 'piece', index, parts, details: [] };
    return true;
  }

  *#finish(): Generator<GenerationEvent> {
    if (!this.#isCutShort && !this.#isWhole) {
      const { name } = this.#asked.model.upstream;
      throw new UpstreamError('cut', `the upstream '${name}' ended its answer before it was complete`);
    }
    for (const choice of this.#choices) yield choice.finish;
  }

  #choice(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw new RangeError(`there is no choice ${index}`);
    return choice;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
