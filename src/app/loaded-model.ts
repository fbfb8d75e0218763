// A model loaded for a program of its own: an engine process behind chat(), complete(), tokens() and embed(). All calls
// that run at the same time share one batch.

import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { Config } from '../config.ts';
import type { EngineStats } from '../engine/engine.ts';
import { AnswerGrammars } from '../generation/answer-grammars.ts';
import type { ChatMessage } from '../generation/chat-prompt.ts';
import { PictureWorkers } from '../images/picture-workers.ts';
import { ManagedPool, type PoolEvent } from '../pool/managed-pool.ts';
import { modelFilesAt } from '../pool/model-files.ts';
import type { ModelHomes } from '../pool/model-homes.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import { type ModelPath, wantedNameOfPath } from '../pool/model-names.ts';
import { adapterName } from '../pool/model-slots.ts';
import { locateModel } from '../pool/named-models.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { orAbort } from '../runtime/timers.ts';
import { EncodeWorkers } from '../text/encode-workers.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { type Answer, type AnswerSource, RunningAnswer } from './answer.ts';
import type { ChatOptions, EmbedOptions, TextOptions, TokenOptions } from './call-options.ts';
import { asLibraryError, ChairliftError, invalidValue, loadError } from './chairlift-error.ts';
import { configFrom, type ExclusiveSettings, type GivenConfig } from './given-config.ts';
import { chooseGpu, isGpuBackend } from './gpu-choice.ts';
import { chosenProjectors } from './image-settings.ts';
import {
  type EmbedResult,
  ModelCalls,
  type TextResult,
  type TokenPiece,
  type TokensResult,
} from './model-calls.ts';
import { chosenFormats, chosenTemplates, modelHomesOf, poolOptions } from './pool-settings.ts';

const settings = [
  'backend',
  'gpu',
  'gpuMemory',
  'threads',
  'memory',
  'kvType',
  'kvBlocks',
  'kvMemory',
  'context',
  'maxBatchSize',
  'maxStepTokens',
  'targetStepMs',
  'stepTimeout',
  'direct',
  'speculation',
  'chatTemplate',
  'toolFormat',
  'vision',
  'mmproj',
  'config',
] as const satisfies readonly (keyof GivenConfig)[];

/** Settings as docs/configuration.md describes them. */
export type LoadOptions = LoadSettings & ExclusiveSettings;

interface LoadSettings extends Pick<GivenConfig, (typeof settings)[number]> {
  /** A .gguf file, a .safetensors file, a model folder or the name of a model on this machine; else the embedded model. */
  readonly path?: string | undefined;
  /** LoRA adapters by name: folders that PEFT or mlx-lm wrote, or GGUF files. Calls choose one by `adapter`. */
  readonly adapters?: Readonly<Record<string, string>> | undefined;
  /** A smaller model of the same vocabulary that drafts for it, or the folder of an EAGLE-3 head. */
  readonly draft?: string | undefined;
  /** Told what a person should know: a slower backend, an engine process that was replaced. Default: a process warning. */
  readonly onNotice?: ((message: string) => void) | undefined;
}

export interface Model {
  readonly name: string;
  readonly path: string;
  readonly contextLength: number;
  readonly direct: boolean;
  readonly tokenizer: Tokenizer;
  /** The assistant's answer to a conversation, in pieces of text. What it reasons and calls is in the result. */
  chat(messages: readonly ChatMessage[], options?: ChatOptions): Answer<string, TextResult>;
  /** What follows a text, in pieces of text. Control tokens spelled in the prompt are read as such. */
  complete(prompt: string, options?: TextOptions): Answer<string, TextResult>;
  /** What follows token ids, token by token. */
  tokens(ids: Iterable<number>, options?: TokenOptions): Answer<TokenPiece, TokensResult>;
  /** A vector of length 1 for each text, pooled as the model's files say. */
  embed(texts: string | readonly string[], options?: EmbedOptions): Promise<EmbedResult>;
  stats(): Promise<EngineStats>;
  /** Ends running calls with the code `model_closed`, and the engine process; its memory is free then. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Resolves when the model is ready. The process stays alive until the model is closed. */
export async function load(options: string | LoadOptions = {}): Promise<Model> {
  const { path, adapters, draft, onNotice, ...given } =
    typeof options === 'string' ? { path: options } : options;
  try {
    const config = configFrom(given, settings);
    const homes = modelHomesOf(config, homedir());
    const besides = {
      adapterPaths: adapters ?? {},
      draftPath: draft === undefined ? undefined : located(draft, homes).path,
    };
    const model = located(path ?? embeddedModelPath(), homes);
    return await start(model, besides, config, onNotice ?? warn);
  } catch (error) {
    throw asLibraryError(error);
  }
}

function located(text: string, homes: ModelHomes): ModelPath {
  const { problem, ...model } = locateModel(text, homes);
  if (problem !== undefined) throw new ChairliftError('model_load_failed', problem);
  return { ...model, path: resolve(model.path) };
}

/** What comes with a model. */
interface Besides {
  readonly adapterPaths: Readonly<Record<string, string>>;
  readonly draftPath: string | undefined;
}

async function start(
  { name: given, path }: ModelPath,
  { adapterPaths, draftPath }: Besides,
  config: Config,
  onNotice: (message: string) => void,
): Promise<Model> {
  const name = given ?? wantedNameOfPath(path, undefined).short;
  const createdSeconds = modelFilesAt(path).changedSeconds;
  const onEvent = ({ kind, message }: PoolEvent) => {
    if (kind === 'fallback' || kind === 'incident') onNotice(message);
  };
  const chatTemplate = chosenTemplates(config)(name);
  const toolFormat = chosenFormats(config)(name);
  const adapters = Object.entries(adapterPaths).map(([adapter, place]) => ({
    name: adapter,
    path: resolve(place),
    aliases: [],
    createdSeconds,
  }));
  const projectorPath = chosenProjectors(config)(name, true);
  const chosen = { chatTemplate, toolFormat, projectorPath, draftPath };
  const model = { name, path, aliases: [], adapters, pinned: true, createdSeconds, ...chosen };
  const gpu = await chooseGpu(config);
  if (!isGpuBackend(gpu.backend) && gpu.notice !== undefined) onNotice(gpu.notice);
  const pool = new ManagedPool({ ...poolOptions(config, { models: [model] }, gpu), onEvent });
  const served = await acquire(pool, name);
  const adapted = new Map<string, ServedModel>();
  for (const adapter of adapters) {
    adapted.set(adapter.name, await acquire(pool, adapterName(name, adapter.name)));
  }
  return new LoadedModel(served, adapted, pool, config.context);
}

async function acquire(pool: ManagedPool, name: string): Promise<ServedModel> {
  const result = await pool.acquire(name);
  if (!result.ok) throw loadError(result.failure, result.message);
  return result.lease.model;
}

function warn(message: string): void {
  process.emitWarning(message, 'ChairliftWarning');
}

class LoadedModel implements Model {
  readonly name: string;
  readonly path: string;
  readonly contextLength: number;
  readonly tokenizer: Tokenizer;
  readonly #model: ServedModel;
  readonly #pool: ManagedPool;
  readonly #encoders = new EncodeWorkers();
  readonly #pictures = new PictureWorkers();
  readonly #grammars = new AnswerGrammars();
  readonly #calls: ModelCalls;
  readonly #adapted: ReadonlyMap<string, ModelCalls>;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(
    model: ServedModel,
    adapted: ReadonlyMap<string, ServedModel>,
    pool: ManagedPool,
    contextLimit: number | undefined,
  ) {
    this.name = model.name;
    this.path = model.path;
    this.contextLength = Math.min(model.spec.contextLength, contextLimit ?? model.spec.contextLength);
    this.tokenizer = model.tokenizer;
    this.#model = model;
    this.#pool = pool;
    const callsOf = (served: ServedModel) =>
      new ModelCalls(served, this.#encoders, this.#pictures, this.#grammars);
    this.#calls = callsOf(model);
    this.#adapted = new Map([...adapted].map(([name, served]) => [name, callsOf(served)]));
  }

  get direct(): boolean {
    return this.#model.direct;
  }

  chat(messages: readonly ChatMessage[], options: ChatOptions = {}): Answer<string, TextResult> {
    return this.#answer(options.signal, (signal) =>
      this.#callsWith(options.adapter).chat(messages, options, signal),
    );
  }

  complete(prompt: string, options: TextOptions = {}): Answer<string, TextResult> {
    return this.#answer(options.signal, (signal) =>
      this.#callsWith(options.adapter).complete(prompt, options, signal),
    );
  }

  tokens(ids: Iterable<number>, options: TokenOptions = {}): Answer<TokenPiece, TokensResult> {
    return this.#answer(options.signal, (signal) =>
      this.#callsWith(options.adapter).tokens(ids, options, signal),
    );
  }

  embed(texts: string | readonly string[], options: EmbedOptions = {}): Promise<EmbedResult> {
    const callsWith = () => this.#callsWith(options.adapter);
    return this.#answer(options.signal, async function* (signal) {
      // There is only one piece.
      const result = await callsWith().embed(texts, options, signal);
      yield result;
      return result;
    }).result();
  }

  async stats(): Promise<EngineStats> {
    this.#closing.signal.throwIfAborted();
    return orAbort(this.#model.engine.stats(), this.#closing.signal);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #callsWith(adapter: string | undefined): ModelCalls {
    if (adapter === undefined) return this.#calls;
    const calls = this.#adapted.get(adapter);
    if (calls !== undefined) return calls;
    throw invalidValue(
      'adapter',
      `give one of ${[...this.#adapted.keys()].join(', ') || 'those given to load()'}`,
    );
  }

  #answer<Piece, Result>(
    signal: AbortSignal | undefined,
    source: AnswerSource<Piece, Result>,
  ): Answer<Piece, Result> {
    const closing = this.#closing.signal;
    return new RunningAnswer(source, signal === undefined ? [closing] : [closing, signal]);
  }

  async #close(): Promise<void> {
    this.#closing.abort(new ChairliftError('model_closed', `the model '${this.name}' is closed`));
    await Promise.all([this.#encoders.close(), this.#pictures.close(), this.#grammars.close()]);
    await this.#pool.close(0);
  }
}
