// One request's life in the engine, for chat and text, streamed or not: submits its prompts, turns tokens into
// text, ends choices at stop strings, and counts what was used. Failures are thrown as ApiError.

import type { EngineRequest, FinishEvent, TokenEvent } from '../engine/request.ts';
import type { Priority } from '../engine/sequence.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import { finishReason } from '../sampling/stop-condition.ts';
import { ChoiceText, type TextPiece } from './choice-text.ts';
import { engineError } from './errors.ts';
import { mergeStreams } from './merge-streams.ts';

export interface RunRequest {
  readonly id: string;
  readonly model: ServedModel;
  readonly prompts: readonly Int32Array[];
  /** Answers to each prompt. */
  readonly choices: number;
  /** Of each prompt: they differ where a prompt leaves less room for its answer. */
  readonly parameters: readonly SamplingParameters[];
  readonly stops: readonly string[];
  readonly special: boolean;
  readonly continuation: boolean;
  readonly priority: Priority;
  readonly tenant: string;
  /** Within a tier, accounts are served in turn. */
  readonly account: string;
  readonly enqueuedMs: number;
}

export type AnswerReason = 'stop' | 'length';

export type RunEvent =
  | ({ readonly kind: 'text'; readonly index: number } & TextPiece)
  | { readonly kind: 'finish'; readonly index: number; readonly reason: AnswerReason };

export interface RunUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** Told of what happens, for measurements. */
export interface RunObserver {
  /** The sequence that computes the prompt now waits. */
  submitted(sequence: string): void;
  firstToken(): void;
}

/** What is submitted at once: all answers to a prompt, or a single one. */
interface Part {
  readonly request: EngineRequest;
  readonly prompt: number;
}

interface OpenChoice {
  readonly text: ChoiceText;
  tokens: number;
  ended: boolean;
}

export class CompletionRun {
  readonly #request: RunRequest;
  readonly #signal: AbortSignal;
  readonly #observer: RunObserver;
  readonly #parts: readonly Part[];
  readonly #choices: readonly OpenChoice[];
  readonly #cachedTokens: number[];
  readonly #endIds: readonly number[];
  #completionTokens = 0;

  constructor(request: RunRequest, signal: AbortSignal, observer: RunObserver) {
    this.#request = request;
    this.#signal = signal;
    this.#observer = observer;
    this.#parts = request.prompts.flatMap((_, prompt) => partsOf(request, prompt));
    this.#choices = request.prompts.flatMap((_, prompt) =>
      Array.from({ length: request.choices }, () => openChoice(request, prompt)),
    );
    this.#cachedTokens = request.prompts.map(() => 0);
    this.#endIds = [...request.model.tokenizer.eosIds];
  }

  /** As far as it has come. A prompt counts once, however many answers it gets. */
  get usage(): RunUsage {
    return {
      promptTokens: this.#request.prompts.reduce((sum, { length }) => sum + length, 0),
      cachedTokens: this.#cachedTokens.reduce((sum, count) => sum + count, 0),
      completionTokens: this.#completionTokens,
    };
  }

  /** Tokens of the longest answer. */
  get longestAnswer(): number {
    return Math.max(0, ...this.#choices.map(({ tokens }) => tokens));
  }

  /** Ends when the engine has let go of everything; leaving early, or an abort, cancels what still runs. */
  async *events(): AsyncGenerator<RunEvent, void, void> {
    this.#signal.throwIfAborted();
    const { engine } = this.#request.model;
    const open = new Set(this.#parts);
    try {
      const streams = this.#parts.map(({ request }) => {
        this.#observer.submitted(`${request.id}/${request.resumed?.[0]?.choice ?? 0}`);
        return engine.submit(request);
      });
      for await (const [at, event] of mergeStreams(streams, this.#signal)) {
        const part = this.#parts[at] as Part;
        if (event.kind === 'token') yield* this.#token(part, event);
        else yield* this.#finish(part, event);
        if (this.#isDone(part)) open.delete(part);
      }
    } finally {
      for (const { request } of open) engine.cancel(request.id);
    }
  }

  *#token(part: Part, event: TokenEvent): Generator<RunEvent> {
    const index = this.#indexOf(part, event.choice);
    const choice = this.#choices[index] as OpenChoice;
    if (choice.ended) return;
    if (this.#completionTokens === 0) this.#observer.firstToken();
    this.#completionTokens++;
    choice.tokens++;
    const { parameters } = part.request;
    // The token that ends the answer is no part of it, like a stop string.
    if (finishReason(parameters, this.#endIds, event.token, choice.tokens) === 'stop') return;
    const { stopped, ...piece } = choice.text.push(event.token, event.logprobs);
    yield* textEvents(index, piece);
    if (!stopped) return;
    choice.ended = true;
    if (this.#isDone(part)) this.#request.model.engine.cancel(part.request.id);
    yield { kind: 'finish', index, reason: 'stop' };
  }

  *#finish(part: Part, event: FinishEvent): Generator<RunEvent> {
    const index = this.#indexOf(part, event.choice);
    const choice = this.#choices[index] as OpenChoice;
    if (event.choice === 0) this.#cachedTokens[part.prompt] = event.cachedTokens;
    if (choice.ended) return;
    if (event.error !== undefined) throw engineError(event.error);
    if (event.reason === 'cancelled' || event.reason === 'error') {
      throw engineError({ code: 'engine-failed', message: `the engine ended the answer: ${event.reason}` });
    }
    choice.ended = true;
    const { stopped, ...piece } = choice.text.end();
    yield* textEvents(index, piece);
    yield { kind: 'finish', index, reason: stopped ? 'stop' : event.reason };
  }

  #indexOf({ prompt }: Part, choice: number): number {
    return prompt * this.#request.choices + choice;
  }

  #isDone({ prompt, request }: Part): boolean {
    const first = prompt * this.#request.choices;
    const own = request.resumed?.map(({ choice }) => first + choice);
    const all = own ?? Array.from({ length: this.#request.choices }, (_, n) => first + n);
    return all.every((index) => this.#choices[index]?.ended);
  }
}

/**
 * Answers to one prompt start together from one computation. With stop strings each must be able to end on its
 * own, so each is a request of its own: one that goes on from no tokens, drawing what its number would draw.
 */
function partsOf(run: RunRequest, prompt: number): Part[] {
  const request = (id: string): EngineRequest => ({
    id,
    prompt: run.prompts[prompt] as Int32Array,
    choices: run.choices,
    parameters: run.parameters[prompt] as SamplingParameters,
    priority: run.priority,
    tenant: run.tenant,
    account: run.account,
    enqueuedMs: run.enqueuedMs,
  });
  const id = `${run.id}-${prompt}`;
  if (run.choices === 1 || run.stops.length === 0) return [{ prompt, request: request(id) }];
  return Array.from({ length: run.choices }, (_, choice) => ({
    prompt,
    request: { ...request(`${id}-${choice}`), resumed: [{ choice, tokens: [] }] },
  }));
}

function openChoice(
  { model, stops, parameters, special, continuation }: RunRequest,
  prompt: number,
): OpenChoice {
  const minTokens = parameters[prompt]?.minTokens ?? 0;
  const text = new ChoiceText(model.tokenizer, { stops, minTokens, special, continuation });
  return { text, tokens: 0, ended: false };
}

function textEvents(index: number, piece: TextPiece): RunEvent[] {
  return piece.text === '' && piece.details.length === 0 ? [] : [{ kind: 'text', index, ...piece }];
}
