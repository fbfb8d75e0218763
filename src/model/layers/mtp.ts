// A head that predicts the token after the next one (multi-token prediction, MTP), as models publish it beside their layers.

import { ModelFileError } from '../../weights/model-file-error.ts';
import type { LayerBuilder, Leaves } from '../layer-builder.ts';
import type { LinearSpec, NormSpec } from '../leaves.ts';
import type { UsualNames } from '../tensor-names.ts';

/**
 * Of a token and of the state that the model's layers made of the token before it, a layer like the model's makes a state from
 * which the token after both is predicted. That state may stand for the model's own, so that the head goes on by itself.
 * Embedding and output are the model's. Its layer is an attention with a KV cache of its own, in which the first position
 * of a text is not seen, since no state comes before it; and a feed-forward.
 */
export interface MtpOfLayer<Layer> {
  readonly embeddingNorm: NormSpec;
  /** Of states as they are after the last norm: the model's, and the head's own. */
  readonly stateNorm: NormSpec;
  /** Of both, the embedding first. */
  readonly projection: LinearSpec;
  readonly layer: Layer;
  readonly finalNorm: NormSpec;
}

const names = {
  embeddingNorm: { hub: 'pre_fc_norm_embedding', gguf: 'nextn.enorm' },
  stateNorm: { hub: 'pre_fc_norm_hidden', gguf: 'nextn.hnorm' },
  projection: { hub: 'fc', gguf: 'nextn.eh_proj' },
  finalNorm: { hub: 'norm', gguf: 'nextn.shared_head_norm' },
  ownEmbedding: { hub: 'embed_tokens', gguf: 'nextn.embed_tokens' },
  ownOutput: { hub: 'shared_head.head', gguf: 'nextn.shared_head_head' },
  secondLayer: { hub: 'layers.1.input_layernorm' },
} satisfies UsualNames<string>;

/** What heads of other layouts have. To go without would only show in drafts that are accepted less often. */
const unknownParts = ['ownEmbedding', 'ownOutput', 'secondLayer'] as const;

/** Undefined where the file has none; `outer` has its leaves beside its layer, which is `layer`. */
export function mtp<Layer>(
  outer: LayerBuilder,
  layer: LayerBuilder,
  build: (layer: LayerBuilder) => Layer,
): MtpOfLayer<Layer> | undefined {
  const leaves: Leaves<keyof typeof names> = outer.leaves(names);
  if (!leaves.names.has('projection')) return undefined;
  for (const role of unknownParts) refusePart(layer, leaves, role);
  const { hiddenSize } = layer.sizes;
  return {
    embeddingNorm: leaves.norm('embeddingNorm', hiddenSize),
    stateNorm: leaves.norm('stateNorm', hiddenSize),
    projection: leaves.linear('projection', {
      rows: hiddenSize,
      columns: 2 * hiddenSize,
      adaptable: false,
    }),
    layer: build(layer),
    finalNorm: leaves.norm('finalNorm', hiddenSize),
  };
}

function refusePart(
  { shared }: LayerBuilder,
  { names: tensors }: Leaves<keyof typeof names>,
  role: (typeof unknownParts)[number],
): void {
  if (!tensors.has(role)) return;
  throw new ModelFileError({
    file: shared.source.opened.path,
    field: tensors.weight(role),
    problem: 'belongs to an MTP head of a layout that is not known',
    remedy: 'The model answers without its head; a draft model can be given in its place.',
  });
}
