// One request's answers: each choice is a request to the engine; tokens become text, stop strings end choices, and
// usage is counted. One failing choice fails all.

import type {
  AnswerRequest,
  DraftTokenCounts,
  FinishEvent,
  Logprobs,
  RequestEvent,
  TokenEvent,
} from '../engine/request.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import { AnswerParts, type AnswerPiece, contentOf } from './answer-parts.ts';
import { plainAnswer } from './answer-plan.ts';
import type { AnswerSource, GenerationObserver, TokenUsage } from './answer-source.ts';
import type { Prompt } from './context-room.ts';
import { cancelAll, mergeStreams } from './engine-streams.ts';
import { engineError, notContinued } from './generation-error.ts';
import type { GenerationEvent } from './generation-event.ts';
import { type GenerationRequest, queueFields } from './generation-request.ts';
import { promptDetails, scorePrompts } from './prompt-scores.ts';
import { WholeAnswer, type WholeChoice } from './whole-answer.ts';

const nobody: GenerationObserver = { submitted: () => {}, firstToken: () => {}, token: () => {} };

interface PromptUse {
  /** Choices that the engine has not released. */
  running: number;
  begun: boolean;
  /** Computed or found in the cache, as far as known. */
  tokens: number;
  /** The least that a choice found in the cache: one choice computes what all share. Undefined until one has ended. */
  cachedTokens: number | undefined;
}

class Choice {
  readonly request: AnswerRequest;
  readonly prompt: number;
  readonly index: number;
  readonly parts: AnswerParts;
  draftTokens: DraftTokenCounts | undefined;
  slot: number | undefined;
  tokens = 0;
  /** A stop id ended it before the model did. */
  cut = false;
  /** The client has all of it; the engine may not know yet. */
  complete = false;
  released = false;
  /** When its first token came, where its time is limited. */
  firstMs: number | undefined;
  hasLineBreak = false;

  constructor(generation: GenerationRequest, prompt: number, choice: number) {
    const { model, id, choices = 1, stops = [], special = false } = generation;
    const { expected, showsStop = false } = generation;
    const { ids, continuation, images, pictures } = generation.prompts[prompt] as Prompt;
    const parameters = generation.parameters[prompt] as SamplingParameters;
    this.prompt = prompt;
    this.index = prompt * choices + choice;
    const known = generation.known?.[this.index] ?? [];
    const { grammar, newReader, thinking } = generation.plans?.[prompt] ?? plainAnswer;
    const offset = generation.scoredEchoes?.[prompt]?.length ?? 0;
    const showing = { stops, minTokens: parameters.minTokens, special, continuation, offset, showsStop };
    this.parts = new AnswerParts(model.tokenizer, showing, special ? undefined : newReader?.());
    // Choices share their prompt's blocks through the prefix cache.
    this.request = {
      id: `${id}-${prompt}-${choice}`,
      prompt: ids,
      ...(images === undefined ? {} : { images }),
      ...(pictures === undefined ? {} : { pictures }),
      choice,
      ...(known.length === 0 ? {} : { answer: known }),
      parameters,
      ...queueFields(generation),
      ...(generation.takeover === undefined ? {} : { takeover: generation.takeover }),
      ...(grammar === undefined ? {} : { grammar }),
      ...(thinking === undefined ? {} : { thinking }),
      ...(expected === undefined ? {} : { expected }),
    };
  }
}

export class Generation implements AnswerSource {
  readonly #request: GenerationRequest;
  readonly #signal: AbortSignal;
  readonly #observer: GenerationObserver;
  readonly #choices: Choice[] = [];
  readonly #prompts: readonly PromptUse[];
  readonly accepted: Promise<void> | undefined;
  #completionTokens = 0;
  #accept: () => void = () => {};
  #whenReleased: (() => void) | undefined;

  constructor(request: GenerationRequest, signal: AbortSignal, observer = nobody) {
    const { model } = request;
    if (model.spec.headless === true) throw notContinued(model.name);
    this.#request = request;
    this.#signal = signal;
    this.#observer = observer;
    if (model.engine.accepted !== undefined) {
      this.accepted = new Promise((resolve) => {
        this.#accept = resolve;
      });
    }
    this.#prompts = request.prompts.map(() => ({
      running: 0,
      begun: false,
      tokens: 0,
      cachedTokens: undefined,
    }));
  }

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

  /** Of one prompt; 0 until the engine has reported it. */
  cachedTokensOf(prompt: number): number {
    return this.#prompts[prompt]?.cachedTokens ?? 0;
  }

  slotOf(index: number): number | undefined {
    return this.#choices.find((choice) => choice.index === index)?.slot;
  }

  /** Resolves when the engine has reported what was computed; undefined where it has. */
  get released(): Promise<void> | undefined {
    const isUnknown = ({ running, begun }: PromptUse) => running > 0 && !begun;
    if (!this.#prompts.some(isUnknown)) return undefined;
    return new Promise((resolve) => {
      this.#whenReleased = () => {
        if (!this.#prompts.some(isUnknown)) resolve();
      };
    });
  }

  /** Keywords of a schema that are not enforced. */
  get notes(): readonly string[] {
    return [...new Set((this.#request.plans ?? []).flatMap(({ notes }) => notes))];
  }

  get longestAnswer(): number {
    return this.#choices.reduce((longest, { tokens }) => Math.max(longest, tokens), 0);
  }

  /** Ends when the engine has released everything; an early return or an abort cancels what still runs. */
  events(): AsyncGenerator<GenerationEvent, void, void> {
    return this.#request.plans?.some(({ check }) => check !== undefined) ? this.#checked() : this.#events();
  }

  /** Holds back the end of each answer until it has been checked. One that was cut short is not. */
  async *#checked(): AsyncGenerator<GenerationEvent, void, void> {
    const { prompts, choices = 1, plans = [] } = this.#request;
    const whole = new WholeAnswer(prompts.length * choices);
    for await (const event of this.#events()) {
      whole.add(event);
      const { check } = plans[Math.floor(event.index / choices)] ?? plainAnswer;
      if (event.kind === 'finish' && event.reason === 'stop' && check !== undefined) {
        const isValid = await check(whole.choices[event.index] as WholeChoice);
        yield { ...event, isValid };
      } else yield event;
    }
  }

  async *#events(): AsyncGenerator<GenerationEvent, void, void> {
    this.#signal.throwIfAborted();
    const { engine } = this.#request.model;
    try {
      if (this.#request.scoring !== undefined) yield* this.#score(this.#request.scoring);
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
        // Awaiting only a real promise keeps answers without a budget fast.
        if (taken === true || (await taken)) yield* this.#token(choice, event);
        else yield* this.#cut(choice);
      }
    } finally {
      await cancelAll(engine, this.#unreleased());
    }
  }

  async *#score(scoring: number): AsyncGenerator<GenerationEvent, void, void> {
    const { choices = 1, prompts, scoredEchoes, model } = this.#request;
    const observer = {
      submitted: (id: string, prompt: number) => {
        (this.#prompts[prompt] as PromptUse).running++;
        this.#observer.submitted(id);
      },
      ended: (event: FinishEvent, prompt: number) => this.#release(this.#prompts[prompt] as PromptUse, event),
    };
    for await (const [prompt, scores] of scorePrompts(this.#request, scoring, this.#signal, observer)) {
      const { ids } = prompts[prompt] as Prompt;
      const first = prompt * choices;
      yield { kind: 'scores', index: first, ids, scores };
      const text = scoredEchoes?.[prompt];
      if (text === undefined) continue;
      const details = promptDetails(model.tokenizer, ids, scores, text);
      for (let choice = 0; choice < choices; choice++) {
        yield { kind: 'piece', index: first + choice, parts: [{ kind: 'content', text }], details };
      }
    }
  }

  /** Also after an abort: what was computed is charged. */
  #hear(choice: Choice, event: RequestEvent): void {
    if (event.kind !== 'finish') return;
    choice.released = true;
    choice.draftTokens = event.draftTokens;
    choice.slot = event.slot;
    this.#release(this.#promptOf(choice), event);
  }

  #release(prompt: PromptUse, { promptTokens, cachedTokens }: FinishEvent): void {
    prompt.running--;
    prompt.tokens = Math.max(prompt.tokens, promptTokens);
    prompt.cachedTokens = Math.min(prompt.cachedTokens ?? cachedTokens, cachedTokens);
    this.#whenReleased?.();
  }

  #takes(): boolean | Promise<boolean> {
    return this.#request.budget?.take() ?? true;
  }

  /** The engine does not know the budget and has sampled more. */
  *#cut(choice: Choice): Generator<GenerationEvent> {
    this.#request.model.engine.cancel(choice.request.id);
    yield* this.#complete(choice, 'length');
  }

  /** Lazily: there may be thousands. */
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

  /** A choice with maxTokens 0 never reaches the engine. */
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
      const { engine } = this.#request.model;
      const events = engine.submit(choice.request);
      void engine.accepted?.(choice.request.id).then(this.#accept);
      yield afterKnown(choice.request, events);
    }
  }

  *#unreleased(): Generator<string> {
    for (const { request, released } of this.#choices) if (!released) yield request.id;
  }

  *#token(choice: Choice, { token, logprobs, stop }: TokenEvent): Generator<GenerationEvent> {
    if (this.#completionTokens === 0) this.#observer.firstToken();
    this.#completionTokens++;
    choice.tokens++;
    this.#countWhole(choice);
    const { index, request } = choice;
    this.#observer.token(index);
    // Like a stop string, the token that ends the answer is not part of its text.
    if (stop !== undefined && !(stop === 'stop-id' && this.#request.showsStop === true)) {
      choice.cut = stop !== 'eos';
      yield { kind: 'piece', index, token, logprobs, ...this.#ending(choice, token, logprobs) };
      return;
    }
    const { stopped, ...piece } = choice.parts.push(token, logprobs);
    yield { kind: 'piece', index, token, logprobs, ...piece };
    if (!stopped) {
      if (this.#isOverdue(choice, piece)) yield* this.#cut(choice);
      return;
    }
    choice.complete = true;
    this.#request.model.engine.cancel(request.id);
    yield finishOf(choice, 'stop');
  }

  /** With the scores of a prompt every token has its place, also the one that ends the answer: programs count them. */
  #ending({ parts }: Choice, token: number, logprobs: Logprobs | undefined): AnswerPiece {
    const details =
      this.#request.scoredEchoes === undefined || logprobs === undefined
        ? []
        : [{ token, offset: parts.offset, ...logprobs }];
    return { parts: parts.endWith(token), details };
  }

  /** llama-server's rule: an answer ends in time, but not before its first line break. */
  #isOverdue(choice: Choice, { parts }: AnswerPiece): boolean {
    const { maxAnswerMs } = this.#request;
    if (maxAnswerMs === undefined) return false;
    choice.firstMs ??= performance.now();
    choice.hasLineBreak ||= contentOf(parts).includes('\n');
    return choice.hasLineBreak && performance.now() - choice.firstMs > maxAnswerMs;
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

  /** All of a prompt is computed before the first token of an answer. */
  #countWhole(choice: Choice): void {
    const prompt = this.#promptOf(choice);
    prompt.begun = true;
    prompt.tokens = choice.request.prompt.length;
  }

  #draftTokens(): DraftTokenCounts | undefined {
    const known = this.#choices.filter(({ draftTokens }) => draftTokens !== undefined);
    if (known.length === 0) return undefined;
    return {
      accepted: known.reduce(
        (sum, { draftTokens, tokens }) => sum + Math.min(draftTokens?.accepted ?? 0, tokens),
        0,
      ),
      rejected: known.reduce((sum, { draftTokens }) => sum + (draftTokens?.rejected ?? 0), 0),
    };
  }
}

/** An engine reports what it samples; tokens that exist already are reported here. */
async function* afterKnown(
  { id, answer = [] }: AnswerRequest,
  events: AsyncGenerator<RequestEvent, void, void>,
): AsyncGenerator<RequestEvent, void, void> {
  for (const token of answer) yield { kind: 'token', id, token };
  yield* events;
}

function finishOf({ index, parts }: Choice, reason: FinishReason): GenerationEvent {
  const { calls, hasOpenCall, stop } = parts;
  return { kind: 'finish', index, reason, calls, ...(hasOpenCall ? { hasOpenCall } : {}), stop };
}
