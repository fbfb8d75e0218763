// Embeds or classifies texts: each is a request to the engine; vectors are cut to the requested dimensions and normalized,
// outputs of a classifier's head are left as they are. One failing text fails all.

import type { EmbedRequest, FinishEvent, RequestEvent } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { GenerationObserver, TokenUsage } from './answer-source.ts';
import type { Prompt } from './context-room.ts';
import { cancelAll, mergeStreams } from './engine-streams.ts';
import { engineError, type GenerationError, invalid, notCapable } from './generation-error.ts';
import { type GenerationRequest, queueFields } from './generation-request.ts';

type EmbeddingModel = Pick<ServedModel, 'name' | 'adapter' | 'spec' | 'pooling' | 'classifier' | 'engine'>;

/** How a model scores texts. */
export type Classifier = NonNullable<ServedModel['classifier']>;

interface EmbeddingRequest
  extends Pick<
    GenerationRequest,
    'id' | 'priority' | 'salt' | 'account' | 'kvShare' | 'enqueuedMs' | 'trace'
  > {
  readonly model: EmbeddingModel;
  readonly prompts: readonly Prompt[];
  readonly dimensions?: number | undefined;
  /** Which norm of a vector becomes 1; see `normalized`. Default 2, its length. */
  readonly norm?: number | undefined;
  /** Vectors are the outputs of the model's head. Default false. */
  readonly classifies?: boolean | undefined;
  /** Each vector is the states of all tokens, one after the other, as they are. Default false. */
  readonly eachToken?: boolean | undefined;
}

export class Embedding {
  readonly longestAnswer = 0;
  readonly #request: EmbeddingRequest;
  readonly #requests: readonly EmbedRequest[];
  readonly #signal: AbortSignal;
  readonly #observer: Pick<GenerationObserver, 'submitted'>;
  #promptTokens = 0;
  #cachedTokens = 0;
  readonly #running = new Set<string>();
  #whenReleased: (() => void) | undefined;

  constructor(
    request: EmbeddingRequest,
    signal: AbortSignal,
    observer: Pick<GenerationObserver, 'submitted'> = { submitted: () => {} },
  ) {
    const { id, model, prompts } = request;
    const pooling = request.eachToken
      ? 'none'
      : request.classifies
        ? classifierOf(model).pooling
        : poolingOf(model);
    const shared = { pooling, ...queueFields(request) };
    this.#request = request;
    this.#requests = prompts.map(({ ids }, at) => ({ id: `${id}-${at}`, prompt: ids, ...shared }));
    this.#signal = signal;
    this.#observer = observer;
  }

  get usage(): TokenUsage {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: 0,
    };
  }

  /** Resolves when the engine has reported what was computed; undefined where it has. */
  get released(): Promise<void> | undefined {
    if (this.#running.size === 0) return undefined;
    return new Promise((resolve) => {
      this.#whenReleased = resolve;
    });
  }

  /** In the prompts' order. An abort cancels what still runs. */
  async vectors(): Promise<Float32Array[]> {
    this.#signal.throwIfAborted();
    const { model, dimensions = model.spec.hiddenSize, norm, classifies, eachToken } = this.#request;
    const vectors: Float32Array[] = [];
    const heard = (_: number, event: RequestEvent) => this.#hear(event);
    try {
      for await (const [at, event] of mergeStreams(this.#submit(), this.#signal, heard)) {
        if (event.kind !== 'finish') continue;
        if (event.vector === undefined) throw failure(event);
        const isWhole = classifies === true || eachToken === true;
        vectors[at] = isWhole ? event.vector : normalized(event.vector.subarray(0, dimensions), norm);
      }
      return vectors;
    } finally {
      await cancelAll(model.engine, this.#running);
    }
  }

  /** Lazily: there may be thousands. */
  *#submit(): Generator<AsyncGenerator<RequestEvent, void, void>> {
    for (const request of this.#requests) {
      this.#running.add(request.id);
      this.#observer.submitted(request.id);
      yield this.#request.model.engine.submit(request);
    }
  }

  /** Also after an abort: what was computed is charged. */
  #hear(event: RequestEvent): void {
    if (event.kind !== 'finish') return;
    this.#running.delete(event.id);
    this.#promptTokens += event.promptTokens;
    this.#cachedTokens += event.cachedTokens;
    if (this.#running.size === 0) this.#whenReleased?.();
  }
}

function failure({ error, reason }: Pick<FinishEvent, 'error' | 'reason'>): GenerationError {
  const message = `the engine ended the embedding: ${reason}`;
  return engineError(error ?? { code: 'engine-failed', message }, { logitBias: 'input' });
}

/** Throws where the model has none. */
export function poolingOf({ name, pooling }: Pick<ServedModel, 'name' | 'pooling'>): EmbedRequest['pooling'] {
  if (pooling.possible) return pooling.pooling;
  throw notCapable(name, pooling.problem);
}

/** Throws where the model has none. */
export function classifierOf({ name, classifier }: Pick<ServedModel, 'name' | 'classifier'>): Classifier {
  if (classifier !== undefined) return classifier;
  throw notCapable(name, 'has no head that scores texts; use a classifier or a cross-encoder');
}

/** Of the outputs of a classifier's head, one for each label. */
export function scoresOf(outputs: Float32Array, { activation }: Pick<Classifier, 'activation'>): number[] {
  const values = [...outputs];
  if (activation === 'none') return values;
  if (activation === 'sigmoid') return values.map((value) => 1 / (1 + Math.exp(-value)));
  const most = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - most));
  const sum = powers.reduce((total, value) => total + value, 0);
  return powers.map((value) => value / sum);
}

export function checkDimensions(
  dimensions: number | undefined,
  { spec }: Pick<ServedModel, 'spec'>,
  parameter: string,
): void {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= spec.hiddenSize) return;
  throw invalid(parameter, `must be a whole number from 1 to ${spec.hiddenSize}`);
}

/** llama.cpp scales the largest value to those of 16-bit integers. */
const LARGEST = 32_760;

/** As llama.cpp counts norms: -1 leaves the vector as it is, 0 scales its largest value to 32760, others are p-norms. */
export function normalized(vector: Float32Array, norm = 2): Float32Array {
  if (norm < 0) return vector.slice();
  const sum = (term: (value: number) => number) => vector.reduce((total, value) => total + term(value), 0);
  const length =
    norm === 0
      ? vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / LARGEST
      : norm === 2
        ? Math.sqrt(sum((value) => value * value))
        : sum((value) => Math.abs(value) ** norm) ** (1 / norm);
  return length === 0 ? vector.slice() : vector.map((value) => value / length);
}

export function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, at) => sum + value * (b[at] as number), 0);
}
