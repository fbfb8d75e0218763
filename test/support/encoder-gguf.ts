// Encoders in the form that GGUF files have: named as the tool that converts Hugging Face folders does it.

import type { GgufValue } from '../../src/weights/gguf-metadata.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import type { EncoderModel } from './encoder-models.ts';
import { formulaTensors } from './formula-model.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';

const renamed: readonly (readonly [RegExp, string])[] = [
  [/^bert\.pooler\.dense\.|^head\.dense\./, 'cls.'],
  [/^head\.norm\./, 'cls.norm.'],
  [/^classifier\./, 'cls.output.'],
  [/^(bert|model)\./, ''],
  [/^(encoder\.)?layers?\.(\d+)\./, 'blk.$2.'],
  [/^(embeddings\.(word|tok)_embeddings|embed_tokens)\./, 'token_embd.'],
  [/^embeddings\.position_embeddings/, 'position_embd'],
  [/^embeddings\.token_type_embeddings/, 'token_types'],
  [/^(embeddings\.LayerNorm|embeddings\.norm|emb_ln)\./, 'token_embd_norm.'],
  [/^(final_norm|norm)\./, 'output_norm.'],
  [/attention\.self\.(query|key|value)/, 'attn_$1'],
  [/attn_(q|k|v)(uery|ey|alue)\./, 'attn_$1.'],
  [/(attention\.output\.LayerNorm|\bnorm1)/, 'attn_output_norm'],
  [/(attention\.output\.dense|attn\.out_proj|attn\.Wo)/, 'attn_output'],
  [/(\boutput\.LayerNorm|\bnorm2)/, 'layer_output_norm'],
  [/(intermediate\.dense|mlp\.fc11|mlp\.Wi)/, 'ffn_up'],
  [/(\boutput\.dense|mlp\.fc2|mlp\.Wo)/, 'ffn_down'],
  [/mlp\.fc12/, 'ffn_gate'],
  [/attn\.Wqkv/, 'attn_qkv'],
  [/mlp_norm/, 'ffn_norm'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/self_attn\.([qk])_norm/, 'attn_$1_norm'],
  [/input_layernorm/, 'attn_norm'],
  [/post_attention_layernorm/, 'post_attention_norm'],
  [/pre_feedforward_layernorm/, 'ffn_norm'],
  [/post_feedforward_layernorm/, 'post_ffw_norm'],
  [/mlp\.(gate|up|down)_proj/, 'ffn_$1'],
];

export interface EncoderForm {
  readonly architecture: string;
  /** Keys behind the architecture's prefix. */
  readonly keys?: Readonly<Record<string, GgufValue>>;
  /** 1 is added to the weights of norms. */
  readonly raisesNorms?: boolean;
}

/** A tensor's name in GGUF files. */
export function ggufName(name: string): string {
  return renamed.reduce((result, [pattern, to]) => result.replace(pattern, to), name);
}

export function encoderAsGguf(
  model: Pick<EncoderModel, 'config' | 'saved' | 'tensors'>,
  form: EncoderForm,
): OpenedModel {
  const { architecture, keys, raisesNorms } = form;
  const number = (field: string): number => Number(model.config[field]);
  const epsilon = raisesNorms ? 'layer_norm_rms_epsilon' : 'layer_norm_epsilon';
  const all = {
    block_count: number('num_hidden_layers'),
    context_length: number('max_position_embeddings'),
    embedding_length: number('hidden_size'),
    feed_forward_length: number('intermediate_size'),
    'attention.head_count': number('num_attention_heads'),
    [`attention.${epsilon}`]: Number(model.saved.layer_norm_eps ?? model.saved.norm_eps ?? 1e-6),
    'attention.causal': false,
    ...keys,
  };
  const metadata = new Map<string, GgufValue>([['general.architecture', architecture]]);
  for (const [key, value] of Object.entries(all)) metadata.set(`${architecture}.${key}`, value);
  const weights = memoryWeights(
    formulaTensors(model).map(({ name, shape, values }) => {
      const raised = raisesNorms && name.includes('norm') ? values.map((value) => value + 1) : values;
      return floatTensor(ggufName(name), shape, raised);
    }),
  );
  return { format: 'gguf', path: 'made.gguf', version: 3, metadata, weights };
}
