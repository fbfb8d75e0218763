// The calls of a loaded model: each has its prompt and its options. Answers come in pieces, vectors at once, batched with all
// other calls.

import { randomUUID } from 'node:crypto';
import type { Logprobs } from '../engine/request.ts';
import type { AnswerGrammars } from '../generation/answer-grammars.ts';
import { contentOf, type TokenDetail } from '../generation/answer-parts.ts';
import type { TokenUsage } from '../generation/answer-source.ts';
import { type ChatMessage, type ContentPart, checkMessages } from '../generation/chat-prompt.ts';
import type { Prompt } from '../generation/context-room.ts';
import { checkFits, roomOf } from '../generation/context-room.ts';
import { checkDimensions, Embedding } from '../generation/embedding.ts';
import type { GenerationEvent } from '../generation/generation-event.ts';
import { ownImages } from '../generation/own-images.ts';
import type { ImageReading } from '../generation/pictured-prompt.ts';
import { prepare, type Question } from '../generation/prepare.ts';
import { type PromptInput, readPrompt } from '../generation/prompt.ts';
import { requirementsFor } from '../generation/response-format.ts';
import { ownNames } from '../generation/sampling-settings.ts';
import { noTools, type ToolSelection } from '../generation/tools.ts';
import { WholeAnswer, type WholeCall, type WholeChoice } from '../generation/whole-answer.ts';
import type { PictureReader } from '../images/picture-workers.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import type { EncodeWorkers } from '../text/encode-workers.ts';
import {
  type ChatOptions,
  type EmbedOptions,
  orderOf,
  predictionOf,
  priorityOf,
  samplingOf,
  stopsOf,
  structureOf,
  type TextOptions,
  type TokenOptions,
} from './call-options.ts';
import { ChairliftError, invalidValue } from './chairlift-error.ts';

interface Whole {
  /** `stop`: an end token or a stop string; `length`: `maxTokens` or the context. */
  readonly finishReason: FinishReason;
  readonly usage: TokenUsage;
}

export interface TextResult extends Omit<Whole, 'finishReason'> {
  /** As above; `tool_calls` where it stopped in order to call something. */
  readonly finishReason: FinishReason | 'tool_calls';
  /** Without reasoning and calls. */
  readonly text: string;
  /** What a model that reasons wrote before its text; otherwise empty. */
  readonly reasoning: string;
  /** What it calls, with arguments as JSON text. */
  readonly calls: readonly WholeCall[];
  /** What of the tools' schemas is not enforced. */
  readonly notes: readonly string[];
  /** Of each token whose text is shown, where `logprobs` asks for them; otherwise empty. */
  readonly logprobs: readonly TokenDetail[];
}

/** Log-probabilities where `logprobs` asks for them. */
export interface TokenPiece extends Partial<Logprobs> {
  readonly token: number;
}

export interface TokensResult extends Whole {
  /** All that were sampled, the one that ended the answer too. */
  readonly tokens: readonly number[];
}

export interface EmbedResult {
  readonly vectors: readonly Float32Array[];
  readonly usage: TokenUsage;
}

interface Finished extends Whole {
  readonly choice: WholeChoice;
  readonly notes: readonly string[];
}

const promptNames = {
  chat: 'messages',
  text: 'prompt',
  gap: 'prompt',
  pieces: 'prompt',
  pair: 'prompt',
  pictured: 'prompt',
  ids: 'ids',
} as const;

export class ModelCalls {
  readonly #model: ServedModel;
  readonly #encoders: EncodeWorkers;
  readonly #images: ImageReading;
  readonly #grammars: AnswerGrammars;

  constructor(
    model: ServedModel,
    encoders: EncodeWorkers,
    pictures: PictureReader,
    grammars: AnswerGrammars,
  ) {
    this.#model = model;
    this.#encoders = encoders;
    this.#images = { ...ownImages, pictures };
    this.#grammars = grammars;
  }

  chat(
    given: readonly ChatMessage[],
    { variables, tools, toolChoice, parallelToolCalls, ...options }: ChatOptions,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    const order = orderOf({ tools, toolChoice, parallelToolCalls });
    const messages = checkMessages(given).map(withImageUrls);
    const input = { kind: 'chat', messages, tools: order.shown, variables } as const;
    return this.#text(input, order, options, signal);
  }

  complete(
    prompt: string,
    options: TextOptions,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    if (typeof prompt !== 'string') throw invalidValue('prompt', 'give a text');
    return this.#text({ kind: 'text', text: prompt }, noTools, options, signal);
  }

  async *tokens(
    ids: Iterable<number>,
    options: TokenOptions,
    signal: AbortSignal,
  ): AsyncGenerator<TokenPiece, TokensResult, void> {
    const asked = this.#answer({ kind: 'ids', ids }, options, {}, signal, tokenOf);
    const { choice, finishReason, usage } = yield* asked;
    return { tokens: choice.tokens, finishReason, usage };
  }

  async embed(
    given: string | readonly string[],
    { signal: _, adapter: __, priority, dimensions, ...others }: EmbedOptions,
    signal: AbortSignal,
  ): Promise<EmbedResult> {
    const model = this.#model;
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) throw invalidValue(unknown, 'there is no such option for this call');
    checkDimensions(dimensions, model, 'dimensions');
    const prompts: Prompt[] = [];
    for (const [at, text] of textsOf(given).entries()) {
      const options = { encoder: this.#encoders, signal, parameter: `texts[${at}]` };
      const prompt = await readPrompt({ kind: 'text', text, eos: true }, model, options);
      checkFits(prompt.ids.length, roomOf(model), options.parameter);
      prompts.push(prompt);
    }
    const request = { id: randomUUID(), model, prompts, dimensions, priority: priorityOf(priority) };
    const embedding = new Embedding(request, signal);
    return { vectors: await embedding.vectors(), usage: embedding.usage };
  }

  async *#text(
    input: PromptInput,
    order: ToolSelection,
    { stop, special, prediction, schema, regex, choices, grammar, ...options }: TextOptions,
    signal: AbortSignal,
  ): AsyncGenerator<string, TextResult, void> {
    const structure = structureOf({ schema, regex, choices, grammar });
    const requirements = requirementsFor(structure, input.kind === 'chat' && special !== true, order);
    const asks = { requirements, grammars: this.#grammars };
    const asked = { stops: stopsOf(stop), special, prediction: predictionOf(prediction), asks };
    const { choice, ...whole } = yield* this.#answer(input, options, asked, signal, textOf);
    const { text, reasoning, calls, details } = choice;
    const isCall = whole.finishReason === 'stop' && calls.length > 0;
    return {
      ...whole,
      finishReason: isCall ? 'tool_calls' : whole.finishReason,
      text,
      reasoning,
      calls,
      logprobs: details,
    };
  }

  async *#answer<Piece>(
    input: PromptInput,
    { signal: _, adapter: __, priority, ...sampling }: TokenOptions,
    asked: Pick<Question, 'stops' | 'special' | 'prediction' | 'asks'>,
    signal: AbortSignal,
    pieceOf: (event: GenerationEvent) => Piece | undefined,
  ): AsyncGenerator<Piece, Finished, void> {
    const model = this.#model;
    const names = { ...ownNames, prompt: promptNames[input.kind] };
    const generation = await prepare(
      {
        model,
        input,
        sampling: samplingOf(sampling, model, names),
        names,
        encoder: this.#encoders,
        images: this.#images,
        priority: priorityOf(priority),
        ...asked,
      },
      signal,
    );
    const whole = new WholeAnswer(1);
    for await (const event of generation.events()) {
      whole.add(event);
      const piece = pieceOf(event);
      if (piece !== undefined) yield piece;
    }
    const [choice] = whole.choices;
    if (choice?.reason === undefined) {
      throw new ChairliftError('engine_failed', 'the engine gave the answer no end');
    }
    const { usage, notes } = generation;
    return { choice, finishReason: choice.reason, usage, notes };
  }
}

/** Files that a program has read itself, as it would send them to a server. */
function withImageUrls(message: ChatMessage): ChatMessage {
  if (!Array.isArray(message.content)) return message;
  const content = (message.content as readonly ContentPart[]).map((part) => {
    if (part.type !== 'image' || !(part.image instanceof Uint8Array)) return part;
    const url = `data:image/png;base64,${Buffer.from(part.image).toString('base64')}`;
    return { type: 'image_url', image_url: { url } };
  });
  return { ...message, content };
}

function textsOf(given: string | readonly string[]): readonly string[] {
  const texts = typeof given === 'string' ? [given] : given;
  if (Array.isArray(texts) && texts.every((text) => typeof text === 'string' && text !== '')) return texts;
  throw invalidValue('texts', 'give a text or a list of texts, none of them empty');
}

function textOf(event: GenerationEvent): string | undefined {
  const text = event.kind === 'piece' ? contentOf(event.parts) : '';
  return text === '' ? undefined : text;
}

function tokenOf(event: GenerationEvent): TokenPiece | undefined {
  if (event.kind !== 'piece' || event.token === undefined) return undefined;
  return { token: event.token, ...event.logprobs };
}
