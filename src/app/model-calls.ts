// The calls of a loaded model: each turns what it is given into token ids, runs them in the engine beside all
// other calls, and yields the answer in pieces.

import { randomUUID } from 'node:crypto';
import type { EngineRequest, FinishEvent, Logprobs } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { orAbort } from '../server/activity.ts';
import { chatPrompt } from '../server/chat-prompt.ts';
import type { TokenDetail } from '../server/choice-text.ts';
import { type AnswerReason, CompletionRun, type RunUsage } from '../server/completion-run.ts';
import { engineError } from '../server/errors.ts';
import { mergeStreams } from '../server/merge-streams.ts';
import { chatRules } from '../server/schemas/chat.ts';
import { parseBody } from '../server/schemas/parse.ts';
import type { EncodeWorkers } from '../text/encode-workers.ts';
import {
  type ChatOptions,
  priorityOf,
  samplingOf,
  stopsOf,
  type TextOptions,
  type TokenOptions,
  tokenIds,
} from './call-options.ts';
import { ChairliftError, invalidValue } from './chairlift-error.ts';

/** As OpenAI writes it. */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly content?: string | readonly { readonly type: 'text'; readonly text: string }[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly Readonly<Record<string, unknown>>[];
  readonly tool_call_id?: string;
}

interface Whole {
  /** `stop`: an end token or a stop string; `length`: `maxTokens` or the context. */
  readonly finishReason: AnswerReason;
  readonly usage: RunUsage;
}

export interface TextResult extends Whole {
  readonly text: string;
  /** Of each token whose text is shown, where `logprobs` asks for them; otherwise empty. */
  readonly logprobs: readonly TokenDetail[];
}

/** Log-probabilities where `logprobs` asks for them. */
export interface TokenPiece extends Partial<Logprobs> {
  readonly token: number;
}

export interface TokensResult extends Whole {
  /** All that were drawn, the one that ended the answer too. */
  readonly tokens: readonly number[];
}

const unlimited = { maxMessages: Number.POSITIVE_INFINITY, maxTextCharacters: Number.POSITIVE_INFINITY };
const nobodyWatches = { submitted: () => {}, firstToken: () => {} };

export class ModelCalls {
  readonly #model: ServedModel;
  readonly #encoders: EncodeWorkers;

  constructor(model: ServedModel, encoders: EncodeWorkers) {
    this.#model = model;
    this.#encoders = encoders;
  }

  async *chat(
    given: readonly ChatMessage[],
    { variables, ...options }: ChatOptions,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    if (this.#model.template === undefined) {
      const message = `the model '${this.#model.name}' has no chat template; use complete() with a whole prompt`;
      throw new ChairliftError('no_chat_template', message);
    }
    const { messages } = parseBody(chatRules, { messages: given }).body;
    const prompt = chatPrompt(this.#model, messages, { addGenerationPrompt: true, variables }, unlimited);
    // Templates write the tokens that a text begins with themselves.
    const encoding = this.#encoders.encode(this.#model, prompt, { special: true });
    return yield* this.#text(await orAbort(encoding, signal), options, false, signal);
  }

  async *complete(
    prompt: string,
    options: TextOptions,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    if (typeof prompt !== 'string') throw invalidValue('prompt', 'give a text');
    const encoding = this.#encoders.encode(this.#model, prompt, { special: true, bos: true });
    return yield* this.#text(await orAbort(encoding, signal), options, true, signal);
  }

  async *tokens(
    ids: Iterable<number>,
    { signal: _, priority, ...sampling }: TokenOptions,
    signal: AbortSignal,
  ): AsyncGenerator<TokenPiece, TokensResult, void> {
    const { engine, spec } = this.#model;
    const request: EngineRequest = {
      id: randomUUID(),
      prompt: tokenIds(ids, spec.vocabSize),
      choices: 1,
      parameters: samplingOf(sampling, spec.vocabSize),
      priority: priorityOf(priority),
      tenant: '',
      account: '',
      enqueuedMs: Date.now(),
    };
    const tokens: number[] = [];
    try {
      for await (const [, event] of mergeStreams([engine.submit(request)], signal)) {
        if (event.kind === 'finish') return tokensResult(tokens, event);
        tokens.push(event.token);
        yield { token: event.token, ...event.logprobs };
      }
    } finally {
      engine.cancel(request.id);
    }
    throw new ChairliftError('engine_failed', 'the engine gave the answer no end');
  }

  /** `continuation`: the answer goes on with the prompt's text, so that a space before its first word belongs to it. */
  async *#text(
    prompt: Int32Array,
    { signal: _, stop, special, priority, ...sampling }: TextOptions,
    continuation: boolean,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    const model = this.#model;
    const run = new CompletionRun(
      {
        id: randomUUID(),
        model,
        prompts: [prompt],
        choices: 1,
        parameters: [samplingOf(sampling, model.spec.vocabSize)],
        stops: stopsOf(stop),
        special: special === true,
        continuation,
        priority: priorityOf(priority),
        tenant: '',
        account: '',
        enqueuedMs: Date.now(),
      },
      signal,
      nobodyWatches,
    );
    let text = '';
    let finishReason: AnswerReason = 'stop';
    const logprobs: TokenDetail[] = [];
    for await (const event of run.events()) {
      if (event.kind === 'finish') finishReason = event.reason;
      else {
        text += event.text;
        logprobs.push(...event.details);
        if (event.text !== '') yield event.text;
      }
    }
    return { text, finishReason, usage: run.usage, logprobs };
  }
}

function tokensResult(tokens: readonly number[], finish: FinishEvent): TokensResult {
  const { reason, error, promptTokens, cachedTokens } = finish;
  if (error !== undefined) throw engineError(error);
  if (reason === 'cancelled' || reason === 'error') {
    throw new ChairliftError('engine_failed', `the engine ended the answer: ${reason}`);
  }
  const usage = { promptTokens, cachedTokens, completionTokens: tokens.length };
  return { tokens, finishReason: reason, usage };
}
