// A model's weights as the forward pass uses them.

import type { LayerSpec, ModelSpec } from '../../model/spec.ts';
import { readNorm } from '../../model/weight-reader.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { type Linear, loadLinear, loadMatrix, type Matrix } from './linear.ts';

export interface LayerWeights {
  readonly spec: LayerSpec;
  readonly attentionNorm: Float32Array;
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  readonly output: Linear;
  readonly queryNorm: Float32Array | undefined;
  readonly keyNorm: Float32Array | undefined;
  readonly attentionPostNorm: Float32Array | undefined;
  readonly ffnNorm: Float32Array;
  readonly gate: Linear;
  readonly up: Linear;
  readonly down: Linear;
  readonly ffnPostNorm: Float32Array | undefined;
}

export interface ModelWeights {
  readonly embedding: Matrix;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Float32Array;
  readonly head: Linear;
}

export function loadModelWeights(
  spec: ModelSpec,
  weights: WeightSource,
  onProgress: (share: number) => void,
): ModelWeights {
  const embedding = loadMatrix(weights, spec.embedding);
  const layers = spec.layers.map((layer, index) => {
    const loaded = loadLayer(spec, layer, weights);
    onProgress((index + 1) / (spec.layers.length + 1));
    return loaded;
  });
  // A tied head shares the embedding's memory.
  const tied = spec.head.weight.tensor === spec.embedding.tensor && spec.head.bias === undefined;
  const head = tied ? { matrix: embedding, bias: undefined } : loadLinear(weights, spec.head);
  const finalNorm = readNorm(weights, spec.finalNorm, spec.normOffset);
  onProgress(1);
  return { embedding, layers, finalNorm, head };
}

function loadLayer(model: ModelSpec, spec: LayerSpec, weights: WeightSource): LayerWeights {
  const norm = (tensor: string) => readNorm(weights, tensor, model.normOffset);
  const optionalNorm = (tensor: string | undefined) => (tensor === undefined ? undefined : norm(tensor));
  return {
    spec,
    attentionNorm: norm(spec.attentionNorm),
    query: loadLinear(weights, spec.query),
    key: loadLinear(weights, spec.key),
    value: loadLinear(weights, spec.value),
    output: loadLinear(weights, spec.output),
    queryNorm: optionalNorm(spec.queryNorm),
    keyNorm: optionalNorm(spec.keyNorm),
    attentionPostNorm: optionalNorm(spec.attentionPostNorm),
    ffnNorm: norm(spec.ffnNorm),
    gate: loadLinear(weights, spec.gate),
    up: loadLinear(weights, spec.up),
    down: loadLinear(weights, spec.down),
    ffnPostNorm: optionalNorm(spec.ffnPostNorm),
  };
}
