// What a ModelSpec is made of, whatever its layers look like: for whoever counts, checks or loads it all.

import { channelsOf, type RememberingSpec } from './memory-sizes.ts';
import type {
  AdditionSpec,
  AttentionSpec,
  BodySpec,
  LayerSpec,
  LinearSpec,
  ModelSpec,
  NormSpec,
  PartSpec,
  RowSlice,
} from './spec.ts';

/** A vector of so many values. */
export interface VectorUse {
  readonly tensor: string;
  readonly size: number;
}

export interface LinearUse {
  readonly linear: LinearSpec;
  /** How much of it one row reads: all of it, as many experts as it uses, or nothing of what only adapters add. */
  readonly share: number;
}

function partsOf({ branches, streams }: LayerSpec): PartSpec[] {
  return [...branches.flatMap(({ parts }) => parts), ...(streams === undefined ? [] : [streams.told])];
}

export function bodiesOf({ layers }: ModelSpec): BodySpec[] {
  return layers.flatMap((layer) => partsOf(layer).map(({ body }) => body));
}

export function attentionsOf(spec: ModelSpec): AttentionSpec[] {
  return bodiesOf(spec).filter((body) => body.kind === 'attention');
}

/** What every attention has, also one through a latent. */
export type Attending = Pick<AttentionSpec, 'headCount' | 'cache' | 'window'>;

export function attendingOf(spec: ModelSpec): Attending[] {
  return bodiesOf(spec).filter((body) => body.kind === 'attention' || body.kind === 'latent-attention');
}

/** Whether tokens see those behind them: its texts are embedded whole, and never continued. */
export function isEncoder(spec: ModelSpec): boolean {
  return attentionsOf(spec).some(({ bothSides }) => bothSides);
}

/** Tables of which each token of a step has one row, as wide as the residual stream, that is added to its embedding. */
export function addedTables({ positions, textKinds }: ModelSpec): RowSlice[] {
  return [positions, textKinds].filter((table) => table !== undefined);
}

export function isHeadTied({ head, embedding }: ModelSpec): boolean {
  return head.weight.tensor === embedding.tensor;
}

/** What one row takes of the weights, in parameters: all but the embedding's other rows and experts it does not use. */
export function activeParameters(spec: ModelSpec): number {
  const layers = layerLinears(spec).reduce(
    (sum, { linear, share }) => sum + share * linear.weight.rows * linear.columns,
    0,
  );
  return layers + spec.head.weight.rows * spec.head.columns;
}

/** Of the first layer that has one: the size of a feed-forward, and of an expert. */
export function feedForwardSizes(spec: ModelSpec): { readonly dense?: number; readonly expert?: number } {
  const bodies = bodiesOf(spec);
  const dense = bodies.find((body) => body.kind === 'feed-forward')?.size;
  const expert = bodies.find((body) => body.kind === 'experts')?.experts[0]?.size;
  return { ...(dense === undefined ? {} : { dense }), ...(expert === undefined ? {} : { expert }) };
}

/** Every linear map of the layers, and of what is made for them alone. */
export function layerLinears(spec: ModelSpec): LinearUse[] {
  const { layerInputs, streams } = spec;
  return [
    ...bodiesOf(spec).flatMap(bodyLinears),
    ...spec.layers.flatMap(({ streams: own }) => whole([own?.features, own?.prediction, own?.correction])),
    ...whole([layerInputs?.projection, ...(streams?.spread ?? []), ...(streams?.gather ?? [])]),
  ];
}

/** All that adapters add anywhere. */
export function additionsOf(spec: ModelSpec): AdditionSpec[] {
  return layerLinears(spec).flatMap(({ linear }) => linear.additions ?? []);
}

function bodyLinears(body: BodySpec): LinearUse[] {
  switch (body.kind) {
    case 'attention':
      return whole([body.query, body.stored?.key, body.stored?.value, body.gate, body.output]);
    case 'latent-attention': {
      const { query, queryRotated, latent, keyRotated, toLatent, toValues, output } = body;
      return whole([
        body.queryInput?.down,
        query,
        queryRotated,
        latent,
        keyRotated,
        toLatent,
        toValues,
        output,
      ]);
    }
    case 'feed-forward':
      return whole([body.gate, body.up, body.down, body.share]);
    case 'experts': {
      const share = body.router.used / body.experts.length;
      const experts = body.experts.flatMap(bodyLinears).map(({ linear }) => ({ linear, share }));
      return [...whole([body.router.linear]), ...experts];
    }
    case 'layer-input':
      return whole([body.gate, body.output]);
    case 'low-rank':
      return whole([body.down, body.up]);
    case 'delta-net':
      return whole([body.query, body.key, body.value, body.share, body.decay, body.gate, body.output]);
    case 'short-convolution':
      return whole([body.before, body.after, body.value, body.output]);
    case 'state-space':
      return whole([body.value, body.write, body.read, body.step, body.gate, body.output]);
  }
}

function whole(linears: readonly (LinearSpec | undefined)[]): LinearUse[] {
  return linears
    .filter((linear) => linear !== undefined)
    .flatMap((linear) => [{ linear, share: 1 }, ...additionLinears(linear)]);
}

function additionLinears({ columns, additions = [] }: LinearSpec): LinearUse[] {
  return additions.flatMap(({ down, up, rank }) => [
    { linear: { weight: down, columns }, share: 0 },
    { linear: { weight: up, columns: rank }, share: 0 },
  ]);
}

/** Every norm, sink and scale: all vectors but biases of linear maps. */
export function vectorsOf(spec: ModelSpec): VectorUse[] {
  const { hiddenSize } = spec;
  const stream = (norm: NormSpec | undefined) => normVectors(norm, hiddenSize);
  return [
    ...spec.layers.flatMap((layer) => [
      ...partsOf(layer).flatMap((part) => [
        ...stream(part.input),
        ...bodyVectors(spec, part.body),
        ...stream(part.output),
      ]),
      ...layer.branches.flatMap(({ output, streamNorm }) => [...stream(output), ...stream(streamNorm)]),
      ...stream(layer.streams?.norm),
      ...[layer.streams?.toldScale ?? []].flat().map((tensor) => ({ tensor, size: hiddenSize })),
    ]),
    ...stream(spec.embeddingNorm),
    ...stream(spec.finalNorm),
    ...normVectors(spec.layerInputs?.norm, spec.layerInputs?.size ?? 0),
  ];
}

function bodyVectors(spec: ModelSpec, body: BodySpec): VectorUse[] {
  switch (body.kind) {
    case 'attention':
      return attentionVectors(spec, body);
    case 'feed-forward':
    case 'layer-input':
      return [];
    case 'latent-attention':
      return [
        ...normVectors(body.queryInput?.norm, body.query.columns),
        ...normVectors(body.latentNorm, body.rank),
      ];
    case 'low-rank':
      return normVectors(body.norm, spec.hiddenSize);
    case 'experts': {
      const { norm, choiceBias, expertScales } = body.router;
      const each = [choiceBias, expertScales].filter((tensor) => tensor !== undefined);
      return [
        ...normVectors(norm, spec.hiddenSize),
        ...each.map((tensor) => ({ tensor, size: body.experts.length })),
      ];
    }
    case 'delta-net':
      return [
        ...convolutionVectors(body),
        { tensor: body.decayBias, size: body.valueHeads },
        { tensor: body.decayRate.tensor, size: body.valueHeads },
        ...normVectors(body.norm, body.valueSize),
      ];
    case 'short-convolution':
      return convolutionVectors(body);
    case 'state-space':
      return [
        ...convolutionVectors(body),
        ...[body.stepBias, body.rate.tensor, body.skip].map((tensor) => ({ tensor, size: body.heads })),
        ...normVectors(body.norm, body.heads * body.headSize),
      ];
  }
}

function convolutionVectors(body: RememberingSpec): VectorUse[] {
  const { weight, bias, length } = body.convolution;
  const channels = channelsOf(body);
  return [
    { tensor: weight, size: channels * length },
    ...(bias === undefined ? [] : [{ tensor: bias, size: channels }]),
  ];
}

function attentionVectors(spec: ModelSpec, attention: AttentionSpec): VectorUse[] {
  const { headCount, headSize, queryNorm, stored, sinks } = attention;
  const kvHeads = spec.caches[attention.cache]?.headCount ?? 0;
  const over = (norm: typeof queryNorm, heads: number): VectorUse[] =>
    normVectors(norm?.norm, headSize * (norm?.over === 'head' ? 1 : heads));
  return [
    ...over(queryNorm, headCount),
    ...over(stored?.keyNorm, kvHeads),
    ...over(stored?.valueNorm, kvHeads),
    ...(sinks === undefined ? [] : [{ tensor: sinks, size: headCount }]),
  ];
}

function normVectors(norm: NormSpec | undefined, size: number): VectorUse[] {
  const weights = [norm?.weight ?? []].flat();
  const biases = norm?.bias === undefined ? [] : [norm.bias];
  return [
    ...weights.map((tensor) => ({ tensor, size: size / weights.length })),
    ...biases.map((tensor) => ({ tensor, size })),
  ];
}
