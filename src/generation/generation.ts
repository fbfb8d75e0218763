// One answer on its way through the engine: every choice is a request of its own, tokens become text, choices end
// at stop strings, and what is used is counted. One choice that fails fails the whole.

import type {
  AnswerRequest,
  DraftTokenCounts,
  FinishEvent,
  Logprobs,
  RequestEvent,
  TokenEvent,
} from '../engine/request.ts';
import type { Priority } from '../engine/sequence.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import { type FinishReason, finishReason } from '../sampling/stop-condition.ts';
import { AnswerParts, type AnswerPiece } from './answer-parts.ts';
import { type AnswerPlan, plainAnswer } from './answer-plan.ts';
import { cancelAll, mergeStreams } from './engine-streams.ts';
import { engineError, notContinued } from './generation-error.ts';
import type { Prompt } from './prompt.ts';
import type { ParameterNames } from './sampling-settings.ts';

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
  /** Who asks: within a tier, the account goes first that has had least work. Default: one for all. */
  readonly account?: string;
  /** The part of the KV blocks, above 0 and up to 1, that the account may hold. Default: no limit. */
  readonly kvShare?: number | undefined;
  /** When it came, in milliseconds since 1970. Default: now. */
  readonly enqueuedMs?: number;
  /** It was begun before: engines that know of it go on from there. Default false. */
  readonly recover?: boolean;
  /** How many tokens all answers may have together, where more than their parameters limits them. */
  readonly budget?: TokenBudget | undefined;
  readonly names: Pick<ParameterNames, 'logitBias'>;
}

interface TokenBudget {
  /** Asked before each token of an answer; false where the answer must end without it. */
  take(): boolean | Promise<boolean>;
}

/** A choice's number counts through all prompts: those of the first come first. */
export type GenerationEvent =
  | ({
      readonly kind: 'piece';
      readonly index: number;
      /** What was sampled; its text may come later, or never where it ends the answer. Absent of a last rest of text. */
      readonly token?: number;
      readonly logprobs?: Logprobs | undefined;
    } & AnswerPiece)
  | {
      readonly kind: 'finish';
      readonly index: number;
      readonly reason: FinishReason;
      /** How many there are in the answer. */
      readonly calls: number;
      /** The last of them was cut off within its arguments. */
      readonly hasOpenCall?: true;
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

/** What is known of a prompt from its choices, which share it. */
interface PromptUse {
  /** Choices that the engine has not let go of. */
  running: number;
  /** An answer to it has begun. */
  begun: boolean;
  /** Those that were computed, or needed no compute, as far as that is known. */
  tokens: number;
  /** Of its choices one computes what all share: the one that found least in the cache. Undefined until one has ended. */
  cachedTokens: number | undefined;
}

class Choice {
  readonly request: AnswerRequest;
  readonly prompt: number;
  readonly index: number;
  readonly parts: AnswerParts;
  draftTokens: DraftTokenCounts | undefined;
  tokens = 0;
  /** The model had more to say when a stop id ended it. */
  cut = false;
  /** The client has all of it; the engine may not know yet. */
  complete = false;
  /** The engine has let go of it. */
  released = false;

  constructor(generation: GenerationRequest, prompt: number, choice: number) {
    const { model, id, choices = 1, stops = [], special = false } = generation;
    const { priority = 1, salt = '', account = '', kvShare, enqueuedMs = Date.now(), expected } = generation;
    const { ids, continuation } = generation.prompts[prompt] as Prompt;
    const parameters = generation.parameters[prompt] as SamplingParameters;
    this.prompt = prompt;
    this.index = prompt * choices + choice;
    const { grammar, newReader } = generation.plans?.[prompt] ?? plainAnswer;
    const showing = { stops, minTokens: parameters.minTokens, special, continuation };
    this.parts = new AnswerParts(model.tokenizer, showing, special ? undefined : newReader?.());
    // Choices share their prompt's blocks through the prefix cache, and sample their own tokens by number.
    this.request = {
      id: `${id}-${prompt}-${choice}`,
      prompt: ids,
      choice,
      parameters,
      priority,
      salt,
      adapter: model.adapter,
      account,
      ...(kvShare === undefined ? {} : { kvShare }),
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
  /** Those that have begun. */
  readonly #choices: Choice[] = [];
  readonly #prompts: readonly PromptUse[];
  readonly #endIds: readonly number[];
  #completionTokens = 0;
  #whenReleased: (() => void) | undefined;

  constructor(request: GenerationRequest, signal: AbortSignal, observer = nobody) {
    const { model } = request;
    if (model.spec.headless === true) throw notContinued(model.name);
    this.#request = request;
    this.#signal = signal;
    this.#observer = observer;
    this.#endIds = [...model.tokenizer.eosIds];
    this.#prompts = request.prompts.map(() => ({
      running: 0,
      begun: false,
      tokens: 0,
      cachedTokens: undefined,
    }));
  }

  /** As far as it has come. */
  get usage(): TokenUsage {
    const draftTokens = this.#draftTokens();
    return {
      promptTokens: this.#prompts.reduce((sum, { tokens }) => sum + tokens, 0),
      cachedTokens: this.#prompts.reduce((sum, { cachedTokens = 0 }) => sum + cachedTokens, 0),
      completionTokens: this.#completionTokens,
      draftTokens,
      guesses: draftTokens,
    };
  }

  /** Where it has ended and the engine must still say how much was computed: resolves when it has. */
  get released(): Promise<void> | undefined {
    const isUnknown = ({ running, begun }: PromptUse) => running > 0 && !begun;
    if (!this.#prompts.some(isUnknown)) return undefined;
    return new Promise((resolve) => {
      this.#whenReleased = () => {
        if (!this.#prompts.some(isUnknown)) resolve();
      };
    });
  }

  /** What is not enforced, though it was asked for where that is allowed. */
  get notes(): readonly string[] {
    return [...new Set((this.#request.plans ?? []).flatMap(({ notes }) => notes))];
  }

  /** Tokens of the longest answer. */
  get longestAnswer(): number {
    return this.#choices.reduce((longest, { tokens }) => Math.max(longest, tokens), 0);
  }

  /** Ends when the engine has let go of everything; leaving early, or an abort, cancels what still runs. */
  async *events(): AsyncGenerator<GenerationEvent, void, void> {
    this.#signal.throwIfAborted();
    const { engine } = this.#request.model;
    try {
      for (const choice of this.#begin(({ maxTokens }) => maxTokens === 0)) yield this.#empty(choice);
      const empty = this.#choices.length;
      const choiceAt = (at: number) => this.#choices[empty + at] as Choice;
      const heard = (at: number, event: RequestEvent) => this.#hear(choiceAt(at), event);
      for await (const [at, event] of mergeStreams(this.#submit(), this.#signal, heard)) {
        const choice = choiceAt(at);
        if (event.kind === 'finish') {
          yield* this.#finish(choice, event);
          continue;
        }
        if (choice.complete) continue;
        const taken = this.#takes();
        // Most answers have no budget, and are not kept waiting for one.
        if (taken === true || (await taken)) yield* this.#token(choice, event);
        else yield* this.#cut(choice);
      }
    } finally {
      await cancelAll(engine, this.#unreleased());
    }
  }

  /** Also when nobody waits for the answer any more: what was computed is charged. */
  #hear(choice: Choice, event: RequestEvent): void {
    if (event.kind !== 'finish') return;
    choice.released = true;
    choice.draftTokens = event.draftTokens;
    const prompt = this.#promptOf(choice);
    prompt.running--;
    prompt.tokens = Math.max(prompt.tokens, event.promptTokens);
    prompt.cachedTokens = Math.min(prompt.cachedTokens ?? event.cachedTokens, event.cachedTokens);
    this.#whenReleased?.();
  }

  #takes(): boolean | Promise<boolean> {
    return this.#request.budget?.take() ?? true;
  }

  /** The engine knows of no budget, and has sampled more. */
  *#cut(choice: Choice): Generator<GenerationEvent> {
    this.#request.model.engine.cancel(choice.request.id);
    yield* this.#complete(choice, 'length');
  }

  /** One after the other, as they are asked for: there may be thousands. */
  *#begin(where: (parameters: SamplingParameters) => boolean): Generator<Choice> {
    const { choices = 1, parameters } = this.#request;
    for (const [prompt, its] of parameters.entries()) {
      if (!where(its)) continue;
      for (let number = 0; number < choices; number++) {
        const choice = new Choice(this.#request, prompt, number);
        this.#choices.push(choice);
        yield choice;
      }
    }
  }

  /** Of a choice that asks for no token: the engine never hears of it. */
  #empty(choice: Choice): GenerationEvent {
    choice.complete = true;
    choice.released = true;
    this.#countWhole(choice);
    return finishOf(choice, 'length');
  }

  *#submit(): Generator<AsyncGenerator<RequestEvent, void, void>> {
    for (const choice of this.#begin(({ maxTokens }) => maxTokens !== 0)) {
      this.#promptOf(choice).running++;
      this.#observer.submitted(choice.request.id);
      yield this.#request.model.engine.submit(choice.request);
    }
  }

  *#unreleased(): Generator<string> {
    for (const { request, released } of this.#choices) if (!released) yield request.id;
  }

  *#token(choice: Choice, { token, logprobs }: TokenEvent): Generator<GenerationEvent> {
    if (this.#completionTokens === 0) this.#observer.firstToken();
    this.#completionTokens++;
    choice.tokens++;
    this.#countWhole(choice);
    const { index, request } = choice;
    this.#observer.token(index);
    // The token that ends the answer is no part of its text, like a stop string.
    if (finishReason(request.parameters, this.#endIds, token, choice.tokens) === 'stop') {
      choice.cut = !this.#endIds.includes(token);
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
    if (choice.complete) return;
    const { error, reason } = event;
    if (error !== undefined) throw engineError(error, this.#request.names);
    if (reason === 'cancelled' || reason === 'error') {
      const message = `the engine ended the answer: ${reason}`;
      throw engineError({ code: 'engine-failed', message }, this.#request.names);
    }
    yield* this.#complete(choice, reason);
  }

  *#complete(choice: Choice, reason: FinishReason): Generator<GenerationEvent> {
    choice.complete = true;
    this.#countWhole(choice);
    const { index } = choice;
    const { stopped, ...rest } = choice.parts.end(choice.cut || reason === 'length');
    if (rest.parts.length > 0 || rest.details.length > 0) yield { kind: 'piece', index, ...rest };
    yield finishOf(choice, stopped ? 'stop' : reason);
  }

  #promptOf({ prompt }: Choice): PromptUse {
    return this.#prompts[prompt] as PromptUse;
  }

  /** All of a prompt is computed before the first token of an answer to it. */
  #countWhole(choice: Choice): void {
    const prompt = this.#promptOf(choice);
    prompt.begun = true;
    prompt.tokens = choice.request.prompt.length;
  }

  #draftTokens(): DraftTokenCounts | undefined {
    const known = this.#choices.filter(({ draftTokens }) => draftTokens !== undefined);
    if (known.length === 0) return undefined;
    return {
      // Behind a stop string tokens may have come that nobody sees.
      accepted: known.reduce(
        (sum, { draftTokens, tokens }) => sum + Math.min(draftTokens?.accepted ?? 0, tokens),
        0,
      ),
      rejected: known.reduce((sum, { draftTokens }) => sum + (draftTokens?.rejected ?? 0), 0),
    };
  }
}

function finishOf({ index, parts }: Choice, reason: FinishReason): GenerationEvent {
  const { calls, hasOpenCall, stop } = parts;
  return { kind: 'finish', index, reason, calls, ...(hasOpenCall ? { hasOpenCall } : {}), stop };
}

export interface TokenUsage {
  /** Those that were computed. A prompt counts once, however many answers it gets. */
  readonly promptTokens: number;
  /** Of them, those that needed no compute. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Draft tokens that were computed: part of the answer, or not. Absent where none were sought. */
  readonly draftTokens?: DraftTokenCounts | undefined;
  /** @deprecated The former name of `draftTokens`. */
  readonly guesses?: DraftTokenCounts | undefined;
}
