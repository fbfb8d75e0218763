// Common shapes of layers: where their norms stand, and which branches read the same rows.

import { defined, type LayerBuilder } from './layer-builder.ts';
import type { BodySpec, BranchSpec, LayerSpec, NormSpec } from './spec.ts';

type Bodies = BodySpec | readonly BodySpec[];

interface BranchOptions {
  readonly input?: NormSpec | undefined;
  readonly output?: NormSpec;
  readonly scale?: number | undefined;
  readonly streamNorm?: NormSpec;
}

export function branch(bodies: Bodies, { input, ...options }: BranchOptions): BranchSpec {
  return defined({ parts: [bodies].flat().map((body: BodySpec) => defined({ input, body })), ...options });
}

/** A norm before each branch; `scale` is a factor on what branches add. */
export function preNorm(layer: LayerBuilder, mixer: Bodies, feedForward: Bodies, scale?: number): LayerSpec {
  return {
    branches: [
      branch(mixer, { input: layer.norm('attentionNorm'), scale }),
      branch(feedForward, { input: layer.norm('ffnNorm'), scale }),
    ],
  };
}

export function postNorm(layer: LayerBuilder, mixer: Bodies, feedForward: Bodies): LayerSpec {
  return {
    branches: [
      branch(mixer, { output: layer.norm('attentionPostNorm') }),
      branch(feedForward, { output: layer.norm('ffnPostNorm') }),
    ],
  };
}

export function sandwichNorm(layer: LayerBuilder, mixer: Bodies, feedForward: Bodies): LayerSpec {
  return {
    branches: [
      branch(mixer, { input: layer.norm('attentionNorm'), output: layer.norm('attentionPostNorm') }),
      branch(feedForward, { input: layer.norm('ffnNorm'), output: layer.norm('ffnPostNorm') }),
    ],
  };
}

/** Norms of the residual stream, once a branch is added: the post-LN of the first transformers. */
export function streamNorm(layer: LayerBuilder, mixer: Bodies, feedForward: Bodies): LayerSpec {
  return {
    branches: [
      branch(mixer, { streamNorm: layer.norm('attentionPostNorm') }),
      branch(feedForward, { streamNorm: layer.norm('ffnPostNorm') }),
    ],
  };
}

export function parallel(layer: LayerBuilder, mixer: BodySpec, feedForward: BodySpec): LayerSpec {
  return { branches: [branch([mixer, feedForward], { input: layer.norm('attentionNorm') })] };
}
