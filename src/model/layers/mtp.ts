// A head that predicts the token after the next one (multi-token prediction, MTP), as models publish it next to their layers.

import { ModelFileError } from '../../weights/model-file-error.ts';
import { defined, LayerBuilder, type Leaves } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, TableSpec } from '../leaves.ts';
import type { UsualNames } from '../tensor-names.ts';

/**
 * Of a token and of the state that the model's layers made of the token before it, a layer like the model's makes a state from
 * which the token after both is predicted. That state may stand for the model's own, so that the head goes on by itself.
 * Its layer is an attention with a KV cache of its own, in which the first position of a text is not seen, since no state
 * comes before it; and a feed-forward.
 */
export interface MtpOfLayer<Layer> {
  /** Of its norms; absent: the model's. */
  readonly normEpsilon?: number;
  /** Absent: the model's. */
  readonly embedding?: TableSpec;
  readonly embeddingNorm: NormSpec;
  /** Of states as they are after the last norm: the model's, and the head's own. */
  readonly stateNorm: NormSpec;
  /** States are as the last layer leaves them, before that norm. */
  readonly beforeNorm?: true;
  /** Made in place of the model's last state, of the residual stream after given numbers of layers, side by side. */
  readonly features?: { readonly after: readonly number[]; readonly projection: LinearSpec };
  /**
   * Of both, the embedding first. Absent: the layer's attention reads both side by side, and what the layer gives is added to the
   * state, or to the normalized state.
   */
  readonly projection?: LinearSpec;
  readonly addsToNormed?: true;
  /** The state comes before the embedding. */
  readonly stateFirst?: true;
  readonly layer: Layer;
  readonly finalNorm: NormSpec;
  /** Absent: the model's head. */
  readonly output?: LinearSpec;
  /** What the rows of `output` stand for; absent: all tokens. */
  readonly tokens?: readonly number[];
  /** Of a head that is no part of the model's files: what tells it from others. */
  readonly identity?: string;
}

/**
 * How publishers name it: by names that begin with `mtp.`, as one layer more than the model has, or in a way of their own. GGUF files
 * always have one layer more.
 */
export type MtpPlace = 'mtp' | 'last-layer' | 'mimo' | 'ernie';

const names = {
  embedding: { gguf: 'nextn.embed_tokens' },
  embeddingNorm: { gguf: 'nextn.enorm' },
  stateNorm: { gguf: 'nextn.hnorm' },
  projection: { gguf: 'nextn.eh_proj' },
  finalNorm: { gguf: 'nextn.shared_head_norm' },
  output: { gguf: 'nextn.shared_head_head' },
} satisfies UsualNames<string>;

type Role = keyof typeof names;

interface Place extends Pick<MtpOfLayer<unknown>, 'beforeNorm' | 'stateFirst'> {
  readonly hub: Readonly<Partial<Record<Role, string>>>;
  /** What a second layer would have next to itself. */
  readonly second: string;
}

const places: Readonly<Record<MtpPlace, Place>> = {
  mtp: {
    hub: {
      embedding: 'embed_tokens',
      embeddingNorm: 'pre_fc_norm_embedding',
      stateNorm: 'pre_fc_norm_hidden',
      projection: 'fc',
      finalNorm: 'norm',
      output: 'shared_head.head',
    },
    second: 'layers.1.input_layernorm',
  },
  'last-layer': {
    hub: {
      embedding: 'embed_tokens',
      embeddingNorm: 'enorm',
      stateNorm: 'hnorm',
      projection: 'eh_proj',
      finalNorm: 'shared_head.norm',
      output: 'shared_head.head',
    },
    second: 'eh_proj',
  },
  mimo: {
    hub: {
      embeddingNorm: 'mtp_layers.0.token_layernorm',
      stateNorm: 'mtp_layers.0.hidden_layernorm',
      projection: 'mtp_layers.0.input_proj',
      finalNorm: 'mtp_layers.0.final_layernorm',
    },
    second: 'mtp_layers.1.input_proj',
    stateFirst: true,
  },
  ernie: {
    hub: {
      embeddingNorm: 'mtp_emb_norm.0',
      stateNorm: 'mtp_hidden_norm.0',
      projection: 'mtp_linear_proj.0',
      // The model's own.
      finalNorm: 'norm',
    },
    second: 'mtp_linear_proj.1',
    beforeNorm: true,
  },
};

function namesOf(place: MtpPlace): UsualNames<Role> {
  const roles = Object.keys(names) as Role[];
  const entries = roles.map((role) => [role, { ...names[role], hub: places[place].hub[role] }]);
  return Object.fromEntries(entries) as UsualNames<Role>;
}

/** Undefined where the file has none; `outer` has what lies next to its layer, which is `layer`. */
export function mtp<Layer>(
  outer: LayerBuilder,
  layer: LayerBuilder,
  place: MtpPlace,
  build: (layer: LayerBuilder) => Layer,
): MtpOfLayer<Layer> | undefined {
  const leaves: Leaves<Role> = outer.leaves(namesOf(place));
  if (!leaves.names.has('projection')) return undefined;
  refuseSecondLayer(layer, place);
  const { hiddenSize, vocabSize } = layer.sizes;
  const { beforeNorm, stateFirst } = places[place];
  const has = (role: 'embedding' | 'output') => leaves.names.has(role);
  const linear = (role: Role, rows: number, columns: number) =>
    leaves.linear(role, { rows, columns, adaptable: false });
  return defined({
    embedding: has('embedding') ? leaves.table('embedding', vocabSize, hiddenSize) : undefined,
    embeddingNorm: leaves.norm('embeddingNorm', hiddenSize),
    stateNorm: leaves.norm('stateNorm', hiddenSize),
    beforeNorm,
    projection: linear('projection', hiddenSize, 2 * hiddenSize),
    stateFirst,
    layer: build(layer),
    finalNorm: leaves.norm('finalNorm', hiddenSize),
    output: has('output') ? linear('output', vocabSize, hiddenSize) : undefined,
  }) as MtpOfLayer<Layer>;
}

/** To go without it would only show in drafts that are accepted less often. */
function refuseSecondLayer({ shared, index }: LayerBuilder, place: MtpPlace): void {
  const own = { part: { hub: places[place].second } };
  const inMtp = place === 'last-layer' ? undefined : new LayerBuilder(shared, index, 'mtp').leaves(own).names;
  const nextLayer = new LayerBuilder(shared, index + 1).leaves(namesOf('last-layer')).names;
  const found = [
    inMtp?.has('part') ? inMtp.weight('part') : undefined,
    nextLayer.has('projection') ? nextLayer.weight('projection') : undefined,
  ].find((name) => name !== undefined);
  if (found === undefined) return;
  throw new ModelFileError({
    file: shared.source.opened.path,
    field: found,
    problem: 'belongs to an MTP head of more than one layer, which is not supported',
    remedy: 'The model answers without its head; a draft model can be given in its place.',
  });
}
