// What a ModelSpec is made of, whatever its layers look like: for all that count, check or load it.

import { leavesOf } from './leaves.ts';
import type {
  AttentionSpec,
  BodySpec,
  LayerSpec,
  LinearSpec,
  MatrixSpec,
  ModelSpec,
  NormSpec,
  PartSpec,
  TableSpec,
} from './spec.ts';

interface VectorUse {
  readonly tensor: string;
  readonly size: number;
}

interface MatrixUse {
  readonly matrix: MatrixSpec;
  /** How much of it one row reads: all of it, as many experts as it uses, or nothing of what only adapters add. */
  readonly share: number;
}

function partsOf({ branches, altUp }: LayerSpec): PartSpec[] {
  return [...branches.flatMap(({ parts }) => parts), ...(altUp === undefined ? [] : [altUp.perLayer])];
}

/** An MTP head's come last. */
export function bodiesOf({ layers, mtp }: ModelSpec): BodySpec[] {
  const all = mtp === undefined ? layers : [...layers, mtp.layer];
  return all.flatMap((layer) => partsOf(layer).map(({ body }) => body));
}

export function attentionsOf(spec: ModelSpec): AttentionSpec[] {
  return bodiesOf(spec).filter((body) => body.kind === 'attention');
}

/** Every kind of attention. */
export function attendingOf(spec: ModelSpec): Pick<AttentionSpec, 'headCount' | 'cache' | 'window'>[] {
  return bodiesOf(spec).filter((body) => 'cache' in body);
}

/** Attention is bidirectional: texts are embedded whole, and never continued. */
export function isEncoder(spec: ModelSpec): boolean {
  return attentionsOf(spec).some(({ bidirectional }) => bidirectional);
}

/** Tables of which each token of a step has one row, as wide as the residual stream, that is added to its embedding. */
export function addedTables({ positions, textKinds }: ModelSpec): TableSpec[] {
  return [positions, textKinds].filter((table) => table !== undefined);
}

export function isHeadTied({ head, embedding }: ModelSpec): boolean {
  return head.weight.tensor === embedding.tensor;
}

/** What one row takes of the weights, in parameters: all but the embedding's other rows and experts it does not use. */
export function activeParameters(spec: ModelSpec): number {
  const layers = layerMatrices(spec).reduce(
    (sum, { matrix, share }) => sum + share * matrix.weight.rows * matrix.columns,
    0,
  );
  return layers + spec.head.weight.rows * spec.head.columns;
}

export function textOnlyNotice({ textOnly }: ModelSpec): string | undefined {
  if (textOnly !== true) return undefined;
  return 'only the text model runs: what its files hold for images or sound is left out';
}

/** Values of states that KV blocks keep, for an MTP head; 0 where there is none. */
export function keptStateSize({ mtp, hiddenSize }: ModelSpec): number {
  return mtp === undefined ? 0 : hiddenSize;
}

/** What a head that drafts adds to what KV blocks hold, as their format says it; empty where there is none. */
export function headFormat({ mtp }: ModelSpec): string {
  return mtp === undefined ? '' : `, ${mtp.identity ?? 'mtp'}`;
}

export function mtpNotice({ mtpProblem }: ModelSpec): string | undefined {
  return mtpProblem && `its MTP head is left out: ${mtpProblem}`;
}

/** Of the first layer that has one: the size of a feed-forward, and of an expert. */
export function feedForwardSizes(spec: ModelSpec): { readonly dense?: number; readonly expert?: number } {
  const bodies = bodiesOf(spec);
  const dense = bodies.find((body) => body.kind === 'mlp')?.size;
  const expert = bodies.find((body) => body.kind === 'moe')?.experts[0]?.size;
  return { ...(dense === undefined ? {} : { dense }), ...(expert === undefined ? {} : { expert }) };
}

/** Every linear map of the layers, and of what is made for them alone: all but the head, and what adapters make of tokens. */
export function layerLinears(spec: ModelSpec): LinearSpec[] {
  const { embeddingAdditions: _, ...own } = spec;
  return leavesOf(own, 'linear').filter((linear) => linear !== spec.head);
}

export function adaptableLinears(spec: ModelSpec): LinearSpec[] {
  return [...layerLinears(spec), spec.head];
}

/** Matrices of what adapters add to the head, and to embeddings, without their tables. */
export function outerAdditions({ head, embeddingAdditions = [] }: ModelSpec): MatrixSpec[] {
  return [...embeddingAdditions.map(({ up }) => up), ...additionMatrices(head)];
}

function additionMatrices({ columns, additions = [] }: LinearSpec): MatrixSpec[] {
  return additions.flatMap(({ down, up, rank }) => [
    { weight: down, columns },
    { weight: up, columns: rank },
  ]);
}

/** The matrices of these maps, and of what adapters add to them. */
export function layerMatrices(spec: ModelSpec): MatrixUse[] {
  const shares = expertShares(spec);
  return layerLinears(spec).flatMap((linear) => [
    { matrix: linear, share: shares.get(linear) ?? 1 },
    ...additionMatrices(linear).map((matrix) => ({ matrix, share: 0 })),
  ]);
}

function expertShares(spec: ModelSpec): ReadonlyMap<LinearSpec, number> {
  const mixtures = bodiesOf(spec).filter((body) => body.kind === 'moe');
  return new Map(
    mixtures.flatMap(({ experts, router }) =>
      leavesOf(experts, 'linear').map((linear) => [linear, router.used / experts.length] as const),
    ),
  );
}

/** Every norm, sink and scale: all vectors but biases of linear maps. */
export function vectorsOf(spec: ModelSpec): VectorUse[] {
  return [...leavesOf(spec, 'norm').flatMap(normVectors), ...leavesOf(spec, 'vector')];
}

function normVectors({ weight = [], bias, size }: NormSpec): VectorUse[] {
  const weights = [weight].flat();
  return [
    ...weights.map((tensor) => ({ tensor, size: size / weights.length })),
    ...(bias === undefined ? [] : [{ tensor: bias, size }]),
  ];
}
