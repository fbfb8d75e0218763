// A model's weights as the forward pass uses them: its spec, with what it names read from the file.

import type {
  AttentionSpec,
  BodySpec,
  BranchSpec,
  ConvolutionSpec,
  DeltaNetSpec,
  ExpertsSpec,
  FeedForwardSpec,
  HeadNormSpec,
  LatentAttentionSpec,
  LayerInputSpec,
  LayerInputsSpec,
  LayerSpec,
  LayerStreamsSpec,
  LinearSpec,
  LowRankSpec,
  ModelSpec,
  NormSpec,
  PartSpec,
  RowSlice,
  ShortConvolutionSpec,
  StateSpaceSpec,
} from '../../model/spec.ts';
import { isHeadTied } from '../../model/spec-walk.ts';
import { type NormWeights, readNorm, readRates } from '../../model/weight-reader.ts';
import { readFloats } from '../../weights/read-tensor.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Convolution } from './convolution.ts';
import { type Linear, loadLinear, loadMatrix, type Matrix, type RowAdapters } from './linear.ts';

export interface HeadNorm {
  readonly norm: NormWeights;
  readonly over: HeadNormSpec['over'];
}

export interface Attention {
  readonly kind: 'attention';
  readonly spec: AttentionSpec;
  readonly query: Linear;
  readonly key: Linear | undefined;
  readonly value: Linear | undefined;
  readonly output: Linear;
  readonly gate: Linear | undefined;
  readonly queryNorm: HeadNorm | undefined;
  readonly keyNorm: HeadNorm | undefined;
  readonly valueNorm: HeadNorm | undefined;
  readonly sinks: Float32Array | undefined;
}

export interface LatentAttention {
  readonly kind: 'latent-attention';
  readonly spec: LatentAttentionSpec;
  readonly queryInput: { readonly down: Linear; readonly norm: NormWeights } | undefined;
  readonly query: Linear;
  readonly queryRotated: Linear;
  readonly latent: Linear;
  readonly latentNorm: NormWeights;
  readonly keyRotated: Linear;
  readonly toLatent: Linear;
  readonly toValues: Linear;
  readonly output: Linear;
}

export interface FeedForward {
  readonly kind: 'feed-forward';
  readonly spec: FeedForwardSpec;
  readonly gate: Linear | undefined;
  readonly up: Linear;
  readonly down: Linear;
  readonly share: Linear | undefined;
}

export interface Experts {
  readonly kind: 'experts';
  readonly spec: ExpertsSpec;
  readonly router: Linear;
  readonly routerNorm: NormWeights | undefined;
  readonly choiceBias: Float32Array | undefined;
  readonly expertScales: Float32Array | undefined;
  readonly experts: readonly FeedForward[];
}

export interface LayerInput {
  readonly kind: 'layer-input';
  readonly spec: LayerInputSpec;
  readonly gate: Linear;
  readonly output: Linear;
}

export interface LowRank {
  readonly kind: 'low-rank';
  readonly spec: LowRankSpec;
  readonly down: Linear;
  readonly up: Linear;
  readonly norm: NormWeights;
}

export interface DeltaNet {
  readonly kind: 'delta-net';
  readonly spec: DeltaNetSpec;
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  readonly convolution: Convolution;
  readonly share: Linear;
  readonly decay: Linear;
  readonly decayBias: Float32Array;
  readonly rates: Float32Array;
  readonly norm: NormWeights;
  readonly gate: Linear;
  readonly output: Linear;
}

export interface ShortConvolution {
  readonly kind: 'short-convolution';
  readonly spec: ShortConvolutionSpec;
  readonly before: Linear;
  readonly after: Linear;
  readonly value: Linear;
  readonly convolution: Convolution;
  readonly output: Linear;
}

export interface StateSpace {
  readonly kind: 'state-space';
  readonly spec: StateSpaceSpec;
  readonly value: Linear;
  readonly write: Linear;
  readonly read: Linear;
  readonly convolution: Convolution;
  readonly step: Linear;
  readonly stepBias: Float32Array;
  readonly rates: Float32Array;
  readonly skip: Float32Array;
  readonly gate: Linear;
  readonly norm: NormWeights;
  readonly output: Linear;
}

export type Body =
  | Attention
  | LatentAttention
  | FeedForward
  | Experts
  | LayerInput
  | LowRank
  | DeltaNet
  | ShortConvolution
  | StateSpace;

export interface Part {
  readonly input: NormWeights | undefined;
  readonly body: Body;
  readonly output: NormWeights | undefined;
}

export interface Branch {
  readonly spec: BranchSpec;
  readonly parts: readonly Part[];
  readonly output: NormWeights | undefined;
  readonly streamNorm: NormWeights | undefined;
}

export interface LayerStreams {
  readonly norm: NormWeights;
  readonly features: Linear;
  readonly prediction: Linear;
  readonly correction: Linear;
  readonly told: Part;
  readonly toldScale: Float32Array | undefined;
}

export interface Layer {
  readonly branches: readonly Branch[];
  readonly streams: LayerStreams | undefined;
}

export interface LayerInputs {
  readonly spec: LayerInputsSpec;
  readonly table: Matrix;
  readonly projection: Linear;
  readonly norm: NormWeights;
}

export interface ModelWeights {
  readonly embedding: Matrix;
  readonly positions: Matrix | undefined;
  readonly textKinds: Matrix | undefined;
  readonly embeddingNorm: NormWeights | undefined;
  readonly layerInputs: LayerInputs | undefined;
  readonly layers: readonly Layer[];
  /** Of further residual streams. */
  readonly spread: readonly Linear[];
  readonly gather: readonly Linear[];
  readonly finalNorm: NormWeights | undefined;
  readonly head: Linear;
}

export function loadModelWeights(
  spec: ModelSpec,
  weights: WeightSource,
  adapters: RowAdapters,
  onProgress: (share: number) => void,
): ModelWeights {
  const load = new Loader(weights, adapters);
  const embedding = loadMatrix(weights, spec.embedding, spec.hiddenSize);
  const table = (slice: RowSlice | undefined) => slice && loadMatrix(weights, slice, spec.hiddenSize);
  const added = { positions: table(spec.positions), textKinds: table(spec.textKinds) };
  const layerInputs = spec.layerInputs && load.layerInputs(spec.layerInputs);
  const layers = spec.layers.map((layer, index) => {
    const loaded = load.layer(layer);
    onProgress((index + 1) / (spec.layers.length + 1));
    return loaded;
  });
  const linears = (specs: readonly LinearSpec[] = []) => specs.map((linear) => loadLinear(weights, linear));
  const spread = linears(spec.streams?.spread);
  const gather = linears(spec.streams?.gather);
  // A tied head shares the embedding's memory.
  const tied = isHeadTied(spec) && spec.head.bias === undefined;
  const head = tied ? { matrix: embedding, bias: undefined } : loadLinear(weights, spec.head);
  const embeddingNorm = load.norm(spec.embeddingNorm);
  const finalNorm = load.norm(spec.finalNorm);
  onProgress(1);
  return { embedding, ...added, embeddingNorm, layerInputs, layers, spread, gather, finalNorm, head };
}

class Loader {
  readonly #weights: WeightSource;
  readonly #adapters: RowAdapters;

  constructor(weights: WeightSource, adapters: RowAdapters) {
    this.#weights = weights;
    this.#adapters = adapters;
  }

  layerInputs(spec: LayerInputsSpec): LayerInputs {
    return {
      spec,
      table: loadMatrix(this.#weights, spec.table, spec.count * spec.size),
      projection: this.#linear(spec.projection),
      norm: readNorm(this.#weights, spec.norm),
    };
  }

  layer({ branches, streams }: LayerSpec): Layer {
    return {
      branches: branches.map((branch) => this.#branch(branch)),
      streams: streams && this.#layerStreams(streams),
    };
  }

  #layerStreams(spec: LayerStreamsSpec): LayerStreams {
    return {
      norm: readNorm(this.#weights, spec.norm),
      features: this.#linear(spec.features),
      prediction: this.#linear(spec.prediction),
      correction: this.#linear(spec.correction),
      told: this.#part(spec.told),
      toldScale: this.#vector(spec.toldScale),
    };
  }

  #branch(spec: BranchSpec): Branch {
    return {
      spec,
      parts: spec.parts.map((part) => this.#part(part)),
      output: this.norm(spec.output),
      streamNorm: this.norm(spec.streamNorm),
    };
  }

  #part({ input, body, output }: PartSpec): Part {
    return { input: this.norm(input), body: this.#body(body), output: this.norm(output) };
  }

  #body(spec: BodySpec): Body {
    switch (spec.kind) {
      case 'attention':
        return this.#attention(spec);
      case 'latent-attention':
        return this.#latentAttention(spec);
      case 'feed-forward':
        return this.#feedForward(spec);
      case 'experts':
        return this.#experts(spec);
      case 'layer-input':
        return this.#layerInput(spec);
      case 'low-rank':
        return this.#lowRank(spec);
      case 'delta-net':
        return this.#deltaNet(spec);
      case 'short-convolution':
        return this.#shortConvolution(spec);
      case 'state-space':
        return this.#stateSpace(spec);
    }
  }

  #attention(spec: AttentionSpec): Attention {
    const { stored } = spec;
    return {
      kind: 'attention',
      spec,
      query: this.#linear(spec.query),
      key: this.#linear(stored?.key),
      value: this.#linear(stored?.value),
      output: this.#linear(spec.output),
      gate: this.#linear(spec.gate),
      queryNorm: this.#headNorm(spec.queryNorm),
      keyNorm: this.#headNorm(stored?.keyNorm),
      valueNorm: this.#headNorm(stored?.valueNorm),
      sinks: this.#vector(spec.sinks),
    };
  }

  #latentAttention(spec: LatentAttentionSpec): LatentAttention {
    const { queryInput } = spec;
    const linear = (one: LinearSpec) => this.#linear(one);
    return {
      kind: 'latent-attention',
      spec,
      queryInput: queryInput && {
        down: linear(queryInput.down),
        norm: readNorm(this.#weights, queryInput.norm),
      },
      query: linear(spec.query),
      queryRotated: linear(spec.queryRotated),
      latent: linear(spec.latent),
      latentNorm: readNorm(this.#weights, spec.latentNorm),
      keyRotated: linear(spec.keyRotated),
      toLatent: linear(spec.toLatent),
      toValues: linear(spec.toValues),
      output: linear(spec.output),
    };
  }

  #feedForward(spec: FeedForwardSpec): FeedForward {
    return {
      kind: 'feed-forward',
      spec,
      gate: this.#linear(spec.gate),
      up: this.#linear(spec.up),
      down: this.#linear(spec.down),
      share: this.#linear(spec.share),
    };
  }

  #layerInput(spec: LayerInputSpec): LayerInput {
    const { gate, output } = spec;
    return {
      kind: 'layer-input',
      spec,
      gate: this.#linear(gate),
      output: this.#linear(output),
    };
  }

  #lowRank(spec: LowRankSpec): LowRank {
    return {
      kind: 'low-rank',
      spec,
      down: this.#linear(spec.down),
      up: this.#linear(spec.up),
      norm: readNorm(this.#weights, spec.norm),
    };
  }

  #experts(spec: ExpertsSpec): Experts {
    return {
      kind: 'experts',
      spec,
      router: this.#linear(spec.router.linear),
      routerNorm: this.norm(spec.router.norm),
      choiceBias: this.#vector(spec.router.choiceBias),
      expertScales: this.#vector(spec.router.expertScales),
      experts: spec.experts.map((expert) => this.#feedForward(expert)),
    };
  }

  #deltaNet(spec: DeltaNetSpec): DeltaNet {
    const linear = (one: LinearSpec) => this.#linear(one);
    return {
      kind: 'delta-net',
      spec,
      query: linear(spec.query),
      key: linear(spec.key),
      value: linear(spec.value),
      convolution: this.#convolution(spec.convolution),
      share: linear(spec.share),
      decay: linear(spec.decay),
      decayBias: readFloats(this.#weights, spec.decayBias),
      rates: readRates(this.#weights, spec.decayRate),
      norm: readNorm(this.#weights, spec.norm),
      gate: linear(spec.gate),
      output: linear(spec.output),
    };
  }

  #shortConvolution(spec: ShortConvolutionSpec): ShortConvolution {
    return {
      kind: 'short-convolution',
      spec,
      before: this.#linear(spec.before),
      after: this.#linear(spec.after),
      value: this.#linear(spec.value),
      convolution: this.#convolution(spec.convolution),
      output: this.#linear(spec.output),
    };
  }

  #stateSpace(spec: StateSpaceSpec): StateSpace {
    const linear = (one: LinearSpec) => this.#linear(one);
    return {
      kind: 'state-space',
      spec,
      value: linear(spec.value),
      write: linear(spec.write),
      read: linear(spec.read),
      convolution: this.#convolution(spec.convolution),
      step: linear(spec.step),
      stepBias: readFloats(this.#weights, spec.stepBias),
      rates: readRates(this.#weights, spec.rate),
      skip: readFloats(this.#weights, spec.skip),
      gate: linear(spec.gate),
      norm: readNorm(this.#weights, spec.norm),
      output: linear(spec.output),
    };
  }

  #convolution({ weight, bias }: ConvolutionSpec): Convolution {
    return { weights: readFloats(this.#weights, weight), bias: this.#vector(bias) };
  }

  norm(spec: NormSpec | undefined): NormWeights | undefined {
    return spec === undefined ? undefined : readNorm(this.#weights, spec);
  }

  #headNorm(spec: HeadNormSpec | undefined): HeadNorm | undefined {
    return spec === undefined ? undefined : { norm: readNorm(this.#weights, spec.norm), over: spec.over };
  }

  #linear(spec: LinearSpec): Linear;
  #linear(spec: LinearSpec | undefined): Linear | undefined;
  #linear(spec: LinearSpec | undefined): Linear | undefined {
    return spec === undefined ? undefined : loadLinear(this.#weights, spec, this.#adapters);
  }

  #vector(tensor: string | undefined): Float32Array | undefined {
    return tensor === undefined ? undefined : readFloats(this.#weights, tensor);
  }
}
