// Texts on their way to vectors: each is a request of its own to the engine, and what comes back is cut to the wanted
// length and scaled to length 1. One text that fails fails the whole.

import type { EmbedRequest, FinishEvent } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { GenerationObserver, GenerationRequest } from './generation.ts';
import { engineError, type GenerationError, invalid, notCapable } from './generation-error.ts';
import { mergeStreams } from './merge-streams.ts';
import type { Prompt } from './prompt.ts';
import type { TokenUsage } from './token-usage.ts';

type EmbeddingModel = Pick<ServedModel, 'name' | 'adapter' | 'spec' | 'pooling' | 'engine'>;

export interface EmbeddingRequest
  extends Pick<GenerationRequest, 'id' | 'priority' | 'salt' | 'account' | 'enqueuedMs'> {
  readonly model: EmbeddingModel;
  readonly prompts: readonly Prompt[];
  /** Leading values of each vector that are wanted. Default all. */
  readonly dimensions?: number | undefined;
}

export class Embedding {
  /** Nothing is generated. */
  readonly longestAnswer = 0;
  readonly #request: EmbeddingRequest;
  readonly #requests: readonly EmbedRequest[];
  readonly #signal: AbortSignal;
  readonly #observer: Pick<GenerationObserver, 'submitted'>;
  #cachedTokens = 0;

  constructor(
    request: EmbeddingRequest,
    signal: AbortSignal,
    observer: Pick<GenerationObserver, 'submitted'> = { submitted: () => {} },
  ) {
    const { id, model, prompts, priority = 1, salt = '', account = '', enqueuedMs = Date.now() } = request;
    const pooling = poolingOf(model);
    const shared = { pooling, priority, salt, adapter: model.adapter, account, enqueuedMs };
    this.#request = request;
    this.#requests = prompts.map(({ ids }, at) => ({ id: `${id}-${at}`, prompt: ids, ...shared }));
    this.#signal = signal;
    this.#observer = observer;
  }

  /** As far as it has come. */
  get usage(): TokenUsage {
    return {
      promptTokens: this.#requests.reduce((sum, { prompt }) => sum + prompt.length, 0),
      cachedTokens: this.#cachedTokens,
      completionTokens: 0,
    };
  }

  /** One for each prompt, in their order. An abort cancels what still runs. */
  async vectors(): Promise<Float32Array[]> {
    this.#signal.throwIfAborted();
    const { model, dimensions = model.spec.hiddenSize } = this.#request;
    const running = new Set(this.#requests.map(({ id }) => id));
    const vectors: Float32Array[] = [];
    try {
      const streams = this.#requests.map((request) => {
        this.#observer.submitted(request.id);
        return model.engine.submit(request);
      });
      for await (const [at, event] of mergeStreams(streams, this.#signal)) {
        if (event.kind !== 'finish') continue;
        running.delete(event.id);
        if (event.vector === undefined) throw failure(event);
        this.#cachedTokens += event.cachedTokens;
        vectors[at] = unitVector(event.vector.subarray(0, dimensions));
      }
      return vectors;
    } finally {
      for (const id of running) model.engine.cancel(id);
    }
  }
}

function failure({ error, reason }: Pick<FinishEvent, 'error' | 'reason'>): GenerationError {
  const message = `the engine ended the embedding: ${reason}`;
  return engineError(error ?? { code: 'engine-failed', message }, 'input');
}

/** The model's own way, or why it has none. */
export function poolingOf({ name, pooling }: Pick<ServedModel, 'name' | 'pooling'>): EmbedRequest['pooling'] {
  if (pooling.possible) return pooling.pooling;
  throw notCapable(name, pooling.problem);
}

/** Refuses what a model's vectors cannot be cut to. */
export function checkDimensions(
  dimensions: number | undefined,
  { spec }: Pick<ServedModel, 'spec'>,
  parameter: string,
): void {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= spec.hiddenSize) return;
  throw invalid(parameter, `must be a whole number from 1 to ${spec.hiddenSize}`);
}

/** A vector of zeros has no direction and stays as it is. */
function unitVector(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? vector.slice() : vector.map((value) => value / length);
}

/** Of two vectors of length 1. */
export function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, at) => sum + value * (b[at] as number), 0);
}
