// Embeds texts: each is a request to the engine; vectors are cut to the requested dimensions and normalized. One
// failing text fails all.

import type { EmbedRequest, FinishEvent, RequestEvent } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { Prompt } from './context-room.ts';
import { cancelAll, mergeStreams } from './engine-streams.ts';
import type { GenerationObserver, TokenUsage } from './generation.ts';
import { engineError, type GenerationError, invalid, notCapable } from './generation-error.ts';
import type { GenerationRequest } from './generation-request.ts';

type EmbeddingModel = Pick<ServedModel, 'name' | 'adapter' | 'spec' | 'pooling' | 'engine'>;

interface EmbeddingRequest
  extends Pick<GenerationRequest, 'id' | 'priority' | 'salt' | 'account' | 'kvShare' | 'enqueuedMs'> {
  readonly model: EmbeddingModel;
  readonly prompts: readonly Prompt[];
  readonly dimensions?: number | undefined;
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
    const { id, model, prompts, priority = 1, salt = '', account = '' } = request;
    const { kvShare, enqueuedMs = Date.now() } = request;
    const pooling = poolingOf(model);
    const shared = { pooling, priority, salt, adapter: model.adapter, account, kvShare, enqueuedMs };
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
    const { model, dimensions = model.spec.hiddenSize } = this.#request;
    const vectors: Float32Array[] = [];
    const heard = (_: number, event: RequestEvent) => this.#hear(event);
    try {
      for await (const [at, event] of mergeStreams(this.#submit(), this.#signal, heard)) {
        if (event.kind !== 'finish') continue;
        if (event.vector === undefined) throw failure(event);
        vectors[at] = unitVector(event.vector.subarray(0, dimensions));
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

export function checkDimensions(
  dimensions: number | undefined,
  { spec }: Pick<ServedModel, 'spec'>,
  parameter: string,
): void {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= spec.hiddenSize) return;
  throw invalid(parameter, `must be a whole number from 1 to ${spec.hiddenSize}`);
}

function unitVector(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? vector.slice() : vector.map((value) => value / length);
}

export function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, at) => sum + value * (b[at] as number), 0);
}
