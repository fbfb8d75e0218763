// Gemma 4 (text): larger heads and a rotation of few pairs where all tokens are seen, normalized values, layers that share
// keys and values, inputs of single layers, and experts beside the feed-forward.

import {
  type Architecture,
  type LayerTraits,
  type ModelSource,
  mixedLayers,
  windowOf,
} from '../architecture.ts';
import { configError, optionalCount, optionalFlag, optionalSize } from '../config.ts';
import { expertTraits, hasExperts, withExperts } from '../expert-traits.ts';
import { layerList } from '../layer-lists.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { type FamilyNames, sandwichNorms, switchNames } from '../tensor-names.ts';
import { gemmaTraits } from './gemma-traits.ts';
import { withSharedCaches } from './shared-caches.ts';

const GLOBAL = 0;
const LOCAL = 1;

const names: FamilyNames = {
  'hugging-face': {
    ...sandwichNorms,
    router: 'router.proj',
    expertGateUps: { weight: 'experts.gate_up_proj', bias: '' },
    expertDowns: { weight: 'experts.down_proj', bias: '' },
  },
  mlx: switchNames('experts.switch_glu'),
};

export const gemma4: Architecture = {
  name: 'gemma4',
  modelTypes: ['gemma4_text', 'gemma4'],
  ggufNames: ['gemma4'],
  defaults: {
    vocab_size: 262_144,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    global_head_dim: 512,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    sliding_window: 512,
    hidden_size_per_layer_input: 256,
    rope_parameters: {
      sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
      full_attention: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
    },
    tie_word_embeddings: true,
  },
  layerLists: ['intermediate_size', 'num_key_value_heads'],
  traits(source) {
    const { config, sizes } = source;
    const { local, global } = headSizes(source);
    const layers = layersOf(source);
    const mixes = optionalFlag(config, 'enable_moe_block') ?? hasExperts(config);
    return {
      ...gemmaTraits(source),
      normOffset: 0,
      ropes: [
        ropeOf(config, { ...sizes, headSize: global }, 'full_attention'),
        localRopeOf(config, { ...sizes, headSize: local }, 10_000),
      ],
      layers: mixes ? withExperts(source, layers) : layers,
      ...(mixes ? { experts: expertsOf(source) } : {}),
      attentionScale: 1,
      queryKeyNorm: 'head',
      valueNorm: true,
      // 0 stands for none.
      perLayerInputSize: optionalCount(config, 'hidden_size_per_layer_input') || undefined,
      perLayerInputRows: optionalSize(config, 'vocab_size_per_layer_input'),
      layerScales: true,
      names,
    };
  },
};

/** Of layers with a window, and of those without. */
function headSizes({ config, sizes, opened }: ModelSource): {
  readonly local: number;
  readonly global: number;
} {
  if (opened.format === 'gguf')
    return { global: sizes.headSize, local: optionalSize(config, 'local_head_dim') ?? sizes.headSize };
  return { local: sizes.headSize, global: optionalSize(config, 'global_head_dim') ?? sizes.headSize };
}

function layersOf(source: ModelSource): LayerTraits[] {
  const { config, sizes, naming, opened } = source;
  const isGguf = naming === 'gguf' && opened.format === 'gguf';
  const { local, global } = headSizes(source);
  const equal = optionalFlag(config, 'attention_k_eq_v') ?? false;
  const kinds = mixedLayers(source, 6, {
    sliding: { rope: LOCAL, window: windowOf(config), headSize: local },
    full: {
      rope: GLOBAL,
      headSize: global,
      kvHeadCount: equal ? globalHeads(source) : undefined,
      valuesAreKeys: isGguf ? 'unless-stored' : equal,
    },
  });
  // GGUF files list what differs between layers.
  const kvHeads = layerList(source, 'num_key_value_heads');
  const ffnSizes = layerList(source, 'intermediate_size');
  const wide = optionalFlag(config, 'use_double_wide_mlp') ?? false;
  const shared = withSharedCaches(source, kinds, (one, other) => one.rope === other.rope);
  return shared.map((layer, index) => ({
    ...layer,
    ...(kvHeads === undefined ? {} : { kvHeadCount: kvHeads[index] }),
    ffnSize: ffnSizes?.[index] ?? (wide && layer.cacheOf !== undefined ? 2 * sizes.ffnSize : undefined),
  }));
}

function globalHeads({ config, sizes }: ModelSource): number | undefined {
  const heads = optionalSize(config, 'num_global_key_value_heads');
  if (heads === undefined || sizes.headCount % heads === 0) return heads;
  throw configError(
    config,
    'num_global_key_value_heads',
    `${sizes.headCount} heads cannot share ${heads} key/value heads evenly`,
    'The file is damaged or was converted wrongly; download or convert it again.',
  );
}

function expertsOf(source: ModelSource) {
  return {
    ...expertTraits(source, { score: 'softmax', normalized: true }),
    routerNorm: { factor: source.sizes.hiddenSize ** -0.5 },
    expertScales: true,
    beside: true,
  };
}
