// Gemma 3n (text): AltUp, LAuReL, per-layer embeddings, layers that share a KV cache, and gates of which most are off.

import { configError, fieldOf, optionalFlag, size } from '../config.ts';
import { layerList, periodicSlidingLayers, sharedCaches, windowOf } from '../layer-config.ts';
import { branch } from '../layer-shapes.ts';
import { altUp, layerAltUp } from '../layers/altup.ts';
import { attention } from '../layers/attention.ts';
import { laurel } from '../layers/laurel.ts';
import { mlp } from '../layers/mlp.ts';
import { perLayerInputPart, perLayerInputs } from '../layers/per-layer-inputs.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { normalQuantile } from '../normal-quantile.ts';
import { localRopeOf, ropeOf } from '../rope-parameters.ts';
import { sandwichNorms } from '../tensor-names.ts';
import { gemmaOptions } from './gemma2.ts';

const sizes = { altup_num_inputs: 4, laurel_rank: 64 };

export const gemma3n: Architecture = {
  name: 'gemma3n',
  modelTypes: ['gemma3n_text', 'gemma3n'],
  ggufNames: ['gemma3n'],
  defaults: {
    ...sizes,
    vocab_size: 262_400,
    num_attention_heads: 8,
    num_key_value_heads: 2,
    head_dim: 256,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000,
    sliding_window: 512,
    final_logit_softcapping: 30,
    vocab_size_per_layer_input: 262_144,
    hidden_size_per_layer_input: 256,
    num_kv_shared_layers: 15,
    tie_word_embeddings: true,
  },
  ggufDefaults: { ...sizes, final_logit_softcapping: 30 },
  layerLists: ['intermediate_size'],
  build(source) {
    const { config, sizes } = source;
    refuseOtherActive(source);
    const model = new ModelBuilder(source, { names: { hub: sandwichNorms } });
    const { activation, softcap, ...outer } = gemmaOptions(source);
    const rope = model.rope(ropeOf(config, sizes, 'full_attention'));
    const localRope = model.rope(localRopeOf(config, sizes, 10_000));
    const window = windowOf(config);
    const slides = periodicSlidingLayers(source, 5);
    const ffnSizes = layerList(source, 'intermediate_size');
    const cutoffs = cutoffsOf(source);
    const caches = sharedCaches(source, slides);
    const inputSize = size(config, 'hidden_size_per_layer_input');
    const inputRows = size(config, 'vocab_size_per_layer_input');
    const rank = size(config, 'laurel_rank');
    const count = streamCount(source);
    const scaled = optionalFlag(config, 'altup_correct_scale') ?? true;
    return model.spec({
      ...outer,
      perLayerInputs: perLayerInputs(model, { size: inputSize, rows: inputRows }),
      altUp: altUp(model, { count }),
      layers(layer) {
        const { index } = layer;
        const input = layer.norm('attentionNorm');
        const attending = attention(layer, {
          ...(slides[index] ? { rope: localRope, window } : { rope }),
          scale: 1,
          softcap,
          queryKeyNorm: 'head',
          valueNorm: true,
          sharedCache: caches[index],
        });
        const feeding = mlp(layer, { activation, size: ffnSizes?.[index], gateCutoff: cutoffs[index] });
        return {
          branches: [
            {
              parts: [
                { input, body: attending, output: layer.norm('attentionPostNorm') },
                { input, body: laurel(layer, { rank }) },
              ],
              // Attention and LAuReL are added, and halved in their squares.
              streamScale: Math.SQRT1_2,
            },
            branch(feeding, { input: layer.norm('ffnNorm'), output: layer.norm('ffnPostNorm') }),
          ],
          altUp: layerAltUp(layer, {
            count,
            perLayer: perLayerInputPart(layer, { size: inputSize, activation }),
            scaled,
          }),
        };
      },
    });
  },
};

/** GGUF files list deviations, config.json the shares of gates that are off; by default most are in the first layers. */
function cutoffsOf({ config, sizes }: ModelSource): readonly (number | undefined)[] {
  const { layerCount } = sizes;
  const listed = fieldOf(config, 'activation_cutoffs');
  const cutoffs = ArrayBuffer.isView(listed) ? Array.from(listed as Float32Array) : undefined;
  const given = fieldOf(config, 'activation_sparsity_pattern');
  const usual = Array.from({ length: layerCount }, (_, index) => (layerCount > 10 && index < 10 ? 0.95 : 0));
  const shares: unknown = cutoffs ?? given ?? usual;
  const isShare = (share: unknown) => typeof share === 'number' && share >= 0 && share < 1;
  if (
    !Array.isArray(shares) ||
    shares.length !== layerCount ||
    !(cutoffs !== undefined || shares.every(isShare))
  ) {
    throw configError(
      config,
      cutoffs === undefined ? 'activation_sparsity_pattern' : 'activation_cutoffs',
      `must hold a number for each of the ${layerCount} layers, from 0 to below 1`,
    );
  }
  const all = cutoffs ?? shares.map((share) => normalQuantile(share));
  return all.map((cutoff) => (Number.isFinite(cutoff) ? cutoff : undefined));
}

const MOST_STREAMS = 64;

function streamCount({ config }: ModelSource): number {
  const count = size(config, 'altup_num_inputs');
  if (count > 1 && count <= MOST_STREAMS) return count;
  throw configError(config, 'altup_num_inputs', `must be from 2 to ${MOST_STREAMS}, but is ${count}`);
}

function refuseOtherActive({ config }: ModelSource): void {
  const active = fieldOf(config, 'altup_active_idx') ?? 0;
  if (active === 0) return;
  const problem = `stream ${JSON.stringify(active)} as the active one is not supported`;
  throw configError(config, 'altup_active_idx', problem, 'Use a model whose first stream is active.');
}
