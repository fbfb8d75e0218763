// How wide the rows are that a model's operations work on, whatever its layers look like.

import { channelsOf } from '../../model/layers/convolution.ts';
import type {
  AttentionSpec,
  BodySpec,
  MlaSpec,
  MlpSpec,
  ModelSpec,
  MoeSpec,
  RecurrentSpec,
} from '../../model/spec.ts';
import { additionsOf, bodiesOf } from '../../model/spec-walk.ts';

/** Linear maps that read one input. */
export const MOST_MAPS = 8;

/** Rows of a linear's input: so many of them for each row of a step. */
export interface InputWidth {
  readonly copies: number;
  readonly size: number;
}

interface Widths {
  readonly inputs: readonly InputWidth[];
  /** Queries, keys, values and gates of an attention, or all that a body with a memory makes of a row. */
  readonly heads: number;
  /** The queries of an attention, or what a body with a memory gives. */
  readonly queries: number;
  /** Channels that are convolved; contents of queries, or values, of MLA. */
  readonly channels: number;
  readonly gateUp: number;
  /** Inputs of single layers, all of them. */
  readonly perLayerInputs: number;
  readonly experts: number;
  /** Experts that a row chooses. */
  readonly choices: number;
  /** Choices that rows are grouped by: of experts, or each head of MLA. */
  readonly grouped: number;
  readonly gated: boolean;
  readonly hasLowRank: boolean;
  /** Streams beside the first. */
  readonly streams: number;
  readonly hasPartNorm: boolean;
  /** Whether adapters multiply products. */
  readonly hasFactors: boolean;
  /** Values that adapters bring a row to. */
  readonly brought: number;
  /** Of all of these, for one row of a step. */
  readonly widest: number;
}

/** Values that an attention makes of a row. */
export function headValues({ query, stored, gate }: AttentionSpec): number {
  return [query, stored?.key, stored?.value, gate].reduce(
    (sum, linear) => sum + (linear?.weight.rows ?? 0),
    0,
  );
}

/** Values that MLA makes of a row: what queries are made of, latent and key; rotated queries. */
export function latentValues({ queryInput, kvDown, keyRope, queryRope }: MlaSpec): number {
  return (
    (queryInput?.down.weight.rows ?? 0) + kvDown.weight.rows + keyRope.weight.rows + queryRope.weight.rows
  );
}

/** Values that a body with a memory makes of a row: what is convolved comes first. */
export function rememberedValues(body: RecurrentSpec): number {
  switch (body.kind) {
    case 'gated-delta-net':
      return channelsOf(body) + 2 * body.valueHeads + givenValues(body);
    case 'short-conv':
      return 3 * body.size;
    case 'mamba2':
      return channelsOf(body) + body.heads + givenValues(body);
  }
}

/** Values that it gives to its last map. */
export function givenValues(body: RecurrentSpec): number {
  switch (body.kind) {
    case 'gated-delta-net':
      return body.valueHeads * body.valueSize;
    case 'short-conv':
      return body.size;
    case 'mamba2':
      return body.heads * body.headSize;
  }
}

/** Values that a feed-forward makes of a row: gates, factors, and the row's share. */
export function feedForwardValues({ size, gate, share }: MlpSpec): number {
  return (gate === undefined ? size : 2 * size) + (share === undefined ? 0 : 1);
}

export function widthsOf(spec: ModelSpec): Widths {
  const { hiddenSize } = spec;
  const bodies = bodiesOf(spec);
  const attentions = bodies.filter((body) => body.kind === 'attention');
  const lowRanks = bodies.filter((body) => body.kind === 'laurel');
  const latents = bodies.filter((body) => body.kind === 'mla');
  const feedForwards = bodies.filter((body) => body.kind === 'mlp');
  const remembering = bodies.filter(
    (body) => body.kind === 'gated-delta-net' || body.kind === 'short-conv' || body.kind === 'mamba2',
  );
  const mixtures = bodies.filter((body) => body.kind === 'moe');
  const most = (values: readonly number[]): number => Math.max(0, ...values);
  const inputs = [{ copies: 1, size: hiddenSize }, ...bodies.flatMap((body) => inputsOf(body, hiddenSize))];
  const widths = {
    inputs,
    heads: most([
      ...attentions.map(headValues),
      ...latents.map(latentValues),
      ...remembering.map(rememberedValues),
    ]),
    queries: most([
      ...attentions.map(({ headCount, headSize }) => headCount * headSize),
      ...remembering.map(givenValues),
      ...latents.map(({ headCount, kvLoraRank, qkRopeHeadDim }) => headCount * (kvLoraRank + qkRopeHeadDim)),
    ]),
    channels: most([
      ...remembering.map(channelsOf),
      ...latents.map(
        ({ headCount, qkNopeHeadDim, vHeadDim }) => headCount * Math.max(qkNopeHeadDim, vHeadDim),
      ),
    ]),
    gateUp: most([
      ...feedForwards.map(feedForwardValues),
      ...lowRanks.map(({ down }) => down.weight.rows),
      ...bodies.map((body) => (body.kind === 'per-layer-input' ? body.gate.weight.rows : 0)),
      ...mixtures.map((body) => body.router.used * feedForwardValues(anyExpert(body))),
    ]),
    perLayerInputs: (spec.perLayerInputs?.count ?? 0) * (spec.perLayerInputs?.size ?? 0),
    experts: most(mixtures.map(({ experts }) => experts.length)),
    choices: most(mixtures.map(({ router }) => router.used)),
    grouped: most([
      ...mixtures.map(({ router }) => router.used),
      ...latents.map(({ headCount }) => headCount),
    ]),
    hasLowRank: lowRanks.length > 0,
    streams: spec.altUp?.spread.length ?? 0,
    hasFactors: additionsOf(spec).some(({ magnitude }) => magnitude !== undefined),
    gated: feedForwards.some(({ share }) => share !== undefined),
    hasPartNorm: spec.layers.some(
      ({ branches, altUp }) =>
        altUp?.perLayer.output !== undefined ||
        branches.some(({ parts }) => parts.some(({ output }) => output !== undefined)),
    ),
  };
  // Of maps that all rows pass, or of two maps for each choice of an expert.
  const brought =
    Math.max(MOST_MAPS, 2 * widths.choices) *
    most([...additionsOf(spec), ...(spec.embeddingAdditions ?? [])].map(({ rank }) => rank));
  const widest = most([
    brought,
    ...inputs.map(({ copies, size }) => copies * size),
    widths.heads,
    widths.queries,
    widths.channels,
    widths.streams * hiddenSize,
    widths.gateUp,
    widths.perLayerInputs,
    widths.experts,
    widths.choices * hiddenSize,
  ]);
  return { ...widths, brought, widest };
}

/** All are alike but for their weights. */
export function anyExpert({ experts }: MoeSpec): MlpSpec {
  return experts[0] as MlpSpec;
}

/** Inputs that a body makes beside the one it reads. */
function inputsOf(body: BodySpec, hiddenSize: number): InputWidth[] {
  switch (body.kind) {
    case 'attention':
      return [{ copies: 1, size: body.headCount * body.headSize }];
    case 'mlp':
      return [{ copies: 1, size: body.size }];
    case 'moe': {
      const copies = body.router.used;
      const scaled = body.scalesInput ? [{ copies, size: hiddenSize }] : [];
      return [...scaled, { copies, size: anyExpert(body).size }];
    }
    case 'mla': {
      const { headCount: copies, qkNopeHeadDim, kvLoraRank, vHeadDim, query } = body;
      return [
        { copies: 1, size: query.columns },
        { copies, size: qkNopeHeadDim },
        { copies, size: kvLoraRank },
        { copies: 1, size: copies * vHeadDim },
      ];
    }
    case 'laurel':
      return [{ copies: 1, size: body.up.columns }];
    case 'per-layer-input':
      return [{ copies: 1, size: body.output.columns }];
    case 'gated-delta-net':
    case 'short-conv':
    case 'mamba2':
      return [{ copies: 1, size: givenValues(body) }];
  }
}
