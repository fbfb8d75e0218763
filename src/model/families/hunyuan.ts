// Hunyuan (dense): norms over heads of q and k after the rotation, whose base grows with a factor.

import { activationOf, biasesOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

export const hunyuan: Architecture = {
  name: 'hunyuan-dense',
  modelTypes: ['hunyuan_v1_dense'],
  ggufNames: ['hunyuan-dense'],
  defaults: { max_position_embeddings: 2048, rms_norm_eps: 1e-5 },
  build(source) {
    const { config, sizes } = source;
    const names = { queryNorm: 'self_attn.query_layernorm', keyNorm: 'self_attn.key_layernorm' };
    const model = new ModelBuilder(source, { names: { hub: names } });
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const biases = biasesOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, queryKeyNorm: 'head', normsAfterRope: true, ...biases.attention }),
          mlp(layer, { activation, ...biases.mlp }),
        ),
    });
  },
};
