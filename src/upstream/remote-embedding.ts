// Texts that an upstream turns into vectors, normalized as those of models here are.

import type { GenerationObserver, TokenUsage } from '../generation/answer-source.ts';
import { normalized } from '../generation/embedding.ts';
import { type AskOptions, askWhole } from './ask.ts';
import { countOf, invalid, isObject, type JsonObject, numberOf, objectsOf } from './json.ts';
import type { UpstreamModel } from './upstream.ts';

interface RemoteTexts {
  readonly id: string;
  readonly model: UpstreamModel;
  readonly path: string;
  /** Texts, or token ids of the upstream's model. */
  readonly inputs: readonly (string | readonly number[])[];
  readonly dimensions: number | undefined;
  /** Counts where the upstream reports none. */
  readonly promptTokens: number;
  readonly priority: number;
  readonly via: string;
  readonly trace?: AskOptions['trace'];
}

export class RemoteEmbedding {
  readonly longestAnswer = 0;
  readonly released = undefined;
  readonly #asked: RemoteTexts;
  readonly #signal: AbortSignal;
  readonly #observer: Pick<GenerationObserver, 'submitted'>;
  #promptTokens = 0;

  constructor(asked: RemoteTexts, signal: AbortSignal, observer: Pick<GenerationObserver, 'submitted'>) {
    this.#asked = asked;
    this.#signal = signal;
    this.#observer = observer;
  }

  get usage(): TokenUsage {
    return { promptTokens: this.#promptTokens, cachedTokens: 0, completionTokens: 0 };
  }

  /** In the order of the inputs. */
  async vectors(): Promise<Float32Array[]> {
    const { id, model, path, inputs, dimensions, promptTokens, priority, via, trace } = this.#asked;
    const endTurn = await model.upstream.turns.take(priority, this.#signal);
    try {
      this.#observer.submitted(id);
      const body = {
        model: model.remoteName,
        input: inputs,
        ...(dimensions === undefined ? {} : { dimensions }),
      };
      return await askWhole(model, path, body, { signal: this.#signal, via, trace }, (answer) => {
        const vectors = readVectors(answer, inputs.length, dimensions);
        const usage = isObject(answer.usage) ? answer.usage : {};
        this.#promptTokens = countOf(usage.prompt_tokens) ?? promptTokens;
        return vectors;
      });
    } finally {
      endTurn();
    }
  }
}

function readVectors(answer: JsonObject, count: number, dimensions: number | undefined): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (const [at, { index, embedding }] of objectsOf(answer.data, 'data').entries()) {
    const place = numberOf(index) ?? at;
    if (!Number.isInteger(place) || place < 0 || place >= count || vectors[place] !== undefined) {
      throw invalid('a vector that nobody asked for');
    }
    if (!Array.isArray(embedding) || embedding.length === 0 || !embedding.every(Number.isFinite)) {
      throw invalid('a vector that is no list of numbers');
    }
    if (
      embedding.length !==
      (dimensions ?? vectors.find((one) => one !== undefined)?.length ?? embedding.length)
    ) {
      throw invalid('vectors of another length than asked for');
    }
    vectors[place] = normalized(Float32Array.from(embedding as number[]));
  }
  if (Object.keys(vectors).length !== count) throw invalid('fewer vectors than texts');
  return vectors;
}
