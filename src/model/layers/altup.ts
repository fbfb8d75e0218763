// AltUp: several residual streams, of which each layer computes the first alone (Gemma 3n).

import { type LayerBuilder, modelLeaves, type SharedParts } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, VectorSpec } from '../leaves.ts';

/** Further residual streams next to the first. */
export interface AltUpSpec {
  readonly count: number;
  /** Make the others of the embedding, which is the first; then they are scaled to its root mean square. */
  readonly spread: readonly LinearSpec[];
  /** Bring them back after the last layer, and scale them so again: the mean of all goes on. */
  readonly gather: readonly LinearSpec[];
}

/**
 * Before its branches, which change the first stream alone, a layer predicts every stream of all; after them, it corrects
 * all by what the first one has become. Coefficients are made of `features = tanh(linear(norm(first stream)))`, one value
 * for each of `count` streams: for predictions of the stream as it comes, for corrections as branches left it.
 */
export interface AltUpOfLayer<Part> {
  readonly norm: NormSpec;
  readonly features: LinearSpec;
  /** `count * count` of them: stream i is predicted as `stream[i] + Σ coefficient[i * count + j] * stream[j]`. */
  readonly prediction: LinearSpec;
  /** One for each stream: it becomes `prediction + (1 + coefficient) * (first stream - its prediction)`. */
  readonly correction: LinearSpec;
  /** What all streams but the first have added in the end, of the first one. */
  readonly perLayer: Part;
  /** On the first stream as that sees it: a factor for each value. */
  readonly perLayerScale?: VectorSpec;
}

const modelNames = {
  altUpSpread: { hub: 'altup_projections.*', gguf: 'altup_proj' },
  altUpGather: { hub: 'altup_unembed_projections.*', gguf: 'altup_unembd_proj' },
};

export function altUp(model: SharedParts, { count }: { readonly count: number }): AltUpSpec {
  const { hiddenSize } = model.source.sizes;
  const leaves = modelLeaves(model, modelNames);
  // A tensor each, or one of all.
  const linears = (role: keyof typeof modelNames): LinearSpec[] =>
    Array.from({ length: count - 1 }, (_, number) => {
      const isOwn = leaves.names.weight(role, 0) !== leaves.names.weight(role, 1);
      const firstRow = isOwn ? 0 : number * hiddenSize;
      return leaves.linear(role, { rows: hiddenSize, columns: hiddenSize, firstRow, number });
    });
  return { count, spread: linears('altUpSpread'), gather: linears('altUpGather') };
}

const names = {
  altUpNorm: { hub: 'altup.router_norm', gguf: 'altup_router_norm' },
  altUpFeatures: { hub: 'altup.modality_router', gguf: 'altup_router' },
  altUpPrediction: { hub: 'altup.prediction_coefs', gguf: 'altup_predict_coef' },
  altUpCorrection: { hub: 'altup.correction_coefs', gguf: 'altup_correct_coef' },
  altUpOutputScale: { hub: { weight: 'altup.correct_output_scale' }, gguf: 'altup_correct_scale' },
};

interface AltUpOptions<Part> {
  readonly count: number;
  readonly perLayer: Part;
  /** The first stream has factors before it is added to the others. */
  readonly scaled: boolean;
}

export function layerAltUp<Part>(
  layer: LayerBuilder,
  { count, perLayer, scaled }: AltUpOptions<Part>,
): AltUpOfLayer<Part> {
  const { hiddenSize } = layer.sizes;
  const leaves = layer.leaves(names);
  return {
    norm: { ...leaves.norm('altUpNorm', hiddenSize), factor: 1 / hiddenSize },
    features: leaves.linear('altUpFeatures', { rows: count, columns: hiddenSize }),
    prediction: leaves.linear('altUpPrediction', { rows: count * count, columns: count }),
    correction: leaves.linear('altUpCorrection', { rows: count, columns: count }),
    perLayer,
    ...(scaled ? { perLayerScale: leaves.vector('altUpOutputScale', hiddenSize) } : {}),
  };
}
