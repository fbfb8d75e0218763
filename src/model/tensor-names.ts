// What the tensors of a model are called: one table for each naming scheme, and nowhere else.

import type { WeightSource } from '../weights/weight-source.ts';

/** A tensor's part in a layer. Fused ones stand for several projections, stored one after the other. */
export type LayerRole =
  | 'attentionNorm'
  | 'query'
  | 'key'
  | 'value'
  | 'queryKeyValue'
  | 'output'
  | 'queryNorm'
  | 'keyNorm'
  | 'attentionPostNorm'
  | 'ffnNorm'
  | 'gate'
  | 'up'
  | 'gateUp'
  | 'down'
  | 'ffnPostNorm';

export type Naming = 'gguf' | 'hugging-face';

export interface TensorNames {
  readonly embedding: string;
  readonly finalNorm: string;
  readonly head: string;
  /** Names are those of a model saved without what continues texts. */
  readonly bodyAlone: boolean;
  /** A layer's tensor without its ending `.weight` or `.bias`. */
  layer(index: number, role: LayerRole): string;
}

const ggufRoles: Readonly<Record<LayerRole, string>> = {
  attentionNorm: 'attn_norm',
  query: 'attn_q',
  key: 'attn_k',
  value: 'attn_v',
  queryKeyValue: 'attn_qkv',
  output: 'attn_output',
  queryNorm: 'attn_q_norm',
  keyNorm: 'attn_k_norm',
  attentionPostNorm: 'post_attention_norm',
  ffnNorm: 'ffn_norm',
  gate: 'ffn_gate',
  up: 'ffn_up',
  gateUp: 'ffn_up',
  down: 'ffn_down',
  ffnPostNorm: 'post_ffw_norm',
};

const ggufNames: TensorNames = {
  embedding: 'token_embd.weight',
  finalNorm: 'output_norm.weight',
  head: 'output.weight',
  bodyAlone: false,
  layer: (index, role) => `blk.${index}.${ggufRoles[role]}`,
};

/** The names of models with a norm before each branch only. */
const huggingFaceRoles = {
  attentionNorm: 'input_layernorm',
  query: 'self_attn.q_proj',
  key: 'self_attn.k_proj',
  value: 'self_attn.v_proj',
  queryKeyValue: 'self_attn.qkv_proj',
  output: 'self_attn.o_proj',
  queryNorm: 'self_attn.q_norm',
  keyNorm: 'self_attn.k_norm',
  ffnNorm: 'post_attention_layernorm',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  gateUp: 'mlp.gate_up_proj',
  down: 'mlp.down_proj',
} as const;

/** The names of models with norms before and after each branch, where they differ. */
const huggingFacePostNormRoles = {
  attentionPostNorm: 'post_attention_layernorm',
  ffnNorm: 'pre_feedforward_layernorm',
  ffnPostNorm: 'post_feedforward_layernorm',
} as const;

// A text model may lie inside a multimodal checkpoint, whose age decides which prefix it has. An embedding model is often
// saved as the body alone.
const huggingFacePrefixes = [
  { body: 'model.', head: '' },
  { body: 'language_model.model.', head: 'language_model.' },
  { body: 'model.language_model.', head: '' },
  { body: '', head: '' },
] as const;

export function tensorNames(naming: Naming, postNorms: boolean, weights: WeightSource): TensorNames {
  if (naming === 'gguf') return ggufNames;
  const prefix =
    huggingFacePrefixes.find(({ body }) => weights.tensors.has(`${body}embed_tokens.weight`)) ??
    huggingFacePrefixes[0];
  const roles: Readonly<Partial<Record<LayerRole, string>>> = postNorms
    ? { ...huggingFaceRoles, ...huggingFacePostNormRoles }
    : huggingFaceRoles;
  return {
    embedding: `${prefix.body}embed_tokens.weight`,
    finalNorm: `${prefix.body}norm.weight`,
    head: `${prefix.head}lm_head.weight`,
    bodyAlone: prefix.body === '',
    layer: (index, role) => `${prefix.body}layers.${index}.${roles[role] ?? role}`,
  };
}
