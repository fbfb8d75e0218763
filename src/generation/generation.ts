// One answer on its way through the engine: every choice is a request of its own, tokens become text, choices end
// at stop strings, and what is used is counted. One choice that fails fails the whole.

import type { AnswerRequest, FinishEvent, GuessCounts, Logprobs, TokenEvent } from '../engine/request.ts';
import type { Priority } from '../engine/sequence.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import { type FinishReason, finishReason } from '../sampling/stop-condition.ts';
import { AnswerParts, type AnswerPiece } from './answer-parts.ts';
import { type AnswerPlan, plainAnswer } from './answer-plan.ts';
import { engineError, notContinued } from './generation-error.ts';
import { mergeStreams } from './merge-streams.ts';
import type { ParameterNames } from './parameter-names.ts';
import type { Prompt } from './prompt.ts';
import type { TokenUsage } from './token-usage.ts';

export interface GenerationRequest {
  readonly id: string;
  readonly model: Pick<ServedModel, 'name' | 'adapter' | 'spec' | 'tokenizer' | 'engine'>;
  readonly prompts: readonly Prompt[];
  /** Answers to each prompt. Default 1. */
  readonly choices?: number;
  /** Of each prompt: they differ where a prompt leaves less room for its answer. */
  readonly parameters: readonly SamplingParameters[];
  /** Of each prompt: what its answers may be and how they are read. Default: any text. */
  readonly plans?: readonly AnswerPlan[] | undefined;
  /** What answers will probably be, in tokens: they come sooner where it is right. */
  readonly expected?: Int32Array | undefined;
  /** Texts that end an answer and are not shown. Default none. */
  readonly stops?: readonly string[] | undefined;
  /** Control tokens appear in the text as they are spelled. Default false. */
  readonly special?: boolean | undefined;
  /** Default normal. */
  readonly priority?: Priority | undefined;
  /** Prefixes are shared only among requests of the same salt. Default: one for all. */
  readonly salt?: string;
  /** Who asks: within a tier, accounts are served in turn. Default: one for all. */
  readonly account?: string;
  /** When it came, in milliseconds since 1970. Default: now. */
  readonly enqueuedMs?: number;
  /** It was begun before: engines that know of it go on from there. Default false. */
  readonly recover?: boolean;
  readonly names: Pick<ParameterNames, 'logitBias'>;
}

/** A choice's number counts through all prompts: those of the first come first. */
export type GenerationEvent =
  | ({
      readonly kind: 'piece';
      readonly index: number;
      /** What was drawn; its text may come later, or never where it ends the answer. Absent of a last rest of text. */
      readonly token?: number;
      readonly logprobs?: Logprobs | undefined;
    } & AnswerPiece)
  | {
      readonly kind: 'finish';
      readonly index: number;
      readonly reason: FinishReason;
      /** How many there are in the answer. */
      readonly calls: number;
      /** The stop string that ended it, where one did. */
      readonly stop: string | undefined;
    };

/** Told of what happens, for measurements. */
export interface GenerationObserver {
  /** The engine's request waits from now on. */
  submitted(requestId: string): void;
  firstToken(): void;
  /** Every token, the first too, by the number of its choice. */
  token(index: number): void;
}

const nobody: GenerationObserver = { submitted: () => {}, firstToken: () => {}, token: () => {} };

class Choice {
  readonly request: AnswerRequest;
  readonly prompt: number;
  readonly index: number;
  readonly parts: AnswerParts;
  /** Prompt tokens that needed no compute, once that is known. */
  cachedTokens: number | undefined;
  guesses: GuessCounts | undefined;
  tokens = 0;
  /** The client has all of it; the engine may not know yet. */
  complete = false;
  /** The engine has let go of it. */
  released = false;

  constructor(generation: GenerationRequest, prompt: number, choice: number) {
    const { model, id, choices = 1, stops = [], special = false } = generation;
    const { priority = 1, salt = '', account = '', enqueuedMs = Date.now(), expected } = generation;
    const { ids, continuation } = generation.prompts[prompt] as Prompt;
    const parameters = generation.parameters[prompt] as SamplingParameters;
    this.prompt = prompt;
    this.index = prompt * choices + choice;
    const { grammar, newReader } = generation.plans?.[prompt] ?? plainAnswer;
    const showing = { stops, minTokens: parameters.minTokens, special, continuation };
    this.parts = new AnswerParts(model.tokenizer, showing, special ? undefined : newReader?.());
    // Choices share their prompt's blocks through the prefix cache, and draw their own tokens by number.
    this.request = {
      id: `${id}-${prompt}-${choice}`,
      prompt: ids,
      choice,
      parameters,
      priority,
      salt,
      adapter: model.adapter,
      account,
      enqueuedMs,
      ...(generation.recover === true ? { recover: true } : {}),
      ...(grammar === undefined ? {} : { grammar }),
      ...(expected === undefined ? {} : { expected }),
    };
  }
}

export class Generation {
  readonly #request: GenerationRequest;
  readonly #signal: AbortSignal;
  readonly #observer: GenerationObserver;
  readonly #choices: readonly Choice[];
  readonly #endIds: readonly number[];
  #completionTokens = 0;

  constructor(request: GenerationRequest, signal: AbortSignal, observer = nobody) {
    const { prompts, choices = 1, model } = request;
    if (model.spec.headless === true) throw notContinued(model.name);
    this.#request = request;
    this.#signal = signal;
    this.#observer = observer;
    this.#choices = prompts.flatMap((_, prompt) =>
      Array.from({ length: choices }, (_, choice) => new Choice(request, prompt, choice)),
    );
    this.#endIds = [...model.tokenizer.eosIds];
  }

  /** As far as it has come. */
  get usage(): TokenUsage {
    const { prompts } = this.#request;
    return {
      promptTokens: prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      cachedTokens: prompts.reduce((sum, _, prompt) => sum + this.#cachedTokens(prompt), 0),
      completionTokens: this.#completionTokens,
      guesses: this.#guesses(),
    };
  }

  /** What is not enforced, though it was asked for where that is allowed. */
  get notes(): readonly string[] {
    return [...new Set((this.#request.plans ?? []).flatMap(({ notes }) => notes))];
  }

  /** Tokens of the longest answer. */
  get longestAnswer(): number {
    return Math.max(0, ...this.#choices.map(({ tokens }) => tokens));
  }

  /** Ends when the engine has let go of everything; leaving early, or an abort, cancels what still runs. */
  async *events(): AsyncGenerator<GenerationEvent, void, void> {
    this.#signal.throwIfAborted();
    const { engine } = this.#request.model;
    try {
      const drawn = this.#choices.filter(({ request }) => request.parameters.maxTokens !== 0);
      for (const choice of this.#choices) if (!drawn.includes(choice)) yield emptyAnswer(choice);
      const streams = drawn.map(({ request }) => {
        this.#observer.submitted(request.id);
        return engine.submit(request);
      });
      for await (const [at, event] of mergeStreams(streams, this.#signal)) {
        const choice = drawn[at] as Choice;
        if (event.kind === 'token') yield* this.#token(choice, event);
        else yield* this.#finish(choice, event);
      }
    } finally {
      for (const { request, released } of this.#choices) if (!released) engine.cancel(request.id);
    }
  }

  *#token(choice: Choice, { token, logprobs }: TokenEvent): Generator<GenerationEvent> {
    if (choice.complete) return;
    if (this.#completionTokens === 0) this.#observer.firstToken();
    this.#completionTokens++;
    choice.tokens++;
    const { index, request } = choice;
    this.#observer.token(index);
    // The token that ends the answer is no part of its text, like a stop string.
    if (finishReason(request.parameters, this.#endIds, token, choice.tokens) === 'stop') {
      yield { kind: 'piece', index, token, logprobs, parts: choice.parts.endWith(token), details: [] };
      return;
    }
    const { stopped, ...piece } = choice.parts.push(token, logprobs);
    yield { kind: 'piece', index, token, logprobs, ...piece };
    if (!stopped) return;
    choice.complete = true;
    this.#request.model.engine.cancel(request.id);
    yield finishOf(choice, 'stop');
  }

  *#finish(choice: Choice, event: FinishEvent): Generator<GenerationEvent> {
    choice.released = true;
    choice.cachedTokens = event.cachedTokens;
    choice.guesses = event.guesses;
    if (choice.complete) return;
    const { error, reason } = event;
    if (error !== undefined) throw engineError(error, this.#request.names.logitBias);
    if (reason === 'cancelled' || reason === 'error') {
      const message = `the engine ended the answer: ${reason}`;
      throw engineError({ code: 'engine-failed', message }, this.#request.names.logitBias);
    }
    choice.complete = true;
    const { index } = choice;
    const { stopped, ...rest } = choice.parts.end();
    if (rest.parts.length > 0 || rest.details.length > 0) yield { kind: 'piece', index, ...rest };
    yield finishOf(choice, stopped ? 'stop' : reason);
  }

  #guesses(): GuessCounts | undefined {
    const known = this.#choices.filter(({ guesses }) => guesses !== undefined);
    if (known.length === 0) return undefined;
    return {
      // Behind a stop string tokens may have come that nobody sees.
      accepted: known.reduce((sum, { guesses, tokens }) => sum + Math.min(guesses?.accepted ?? 0, tokens), 0),
      rejected: known.reduce((sum, { guesses }) => sum + (guesses?.rejected ?? 0), 0),
    };
  }

  /** Of a prompt's choices one computes what all share: the one that found least. */
  #cachedTokens(prompt: number): number {
    const known = this.#choices.flatMap((choice) =>
      choice.prompt === prompt && choice.cachedTokens !== undefined ? [choice.cachedTokens] : [],
    );
    return known.length === 0 ? 0 : Math.min(...known);
  }
}

/** Of a choice that asks for no token: the engine never hears of it. */
function emptyAnswer(choice: Choice): GenerationEvent {
  choice.complete = true;
  choice.released = true;
  return finishOf(choice, 'length');
}

function finishOf({ index, parts }: Choice, reason: FinishReason): GenerationEvent {
  const { calls, stop } = parts;
  return { kind: 'finish', index, reason, calls, stop };
}
