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
  | 'sinks'
  | 'ffnNorm'
  | 'gate'
  | 'up'
  | 'gateUp'
  | 'down'
  | 'ffnPostNorm'
  | 'router'
  | 'routingBias'
  | 'sharedGate'
  | 'sharedUp'
  | 'sharedGateUp'
  | 'sharedDown'
  | 'sharedShare'
  | 'routerNorm'
  | 'expertScales'
  | 'ffnOwnPostNorm'
  | 'expertsNorm'
  | 'expertsPostNorm'
  | 'perLayerInputGate'
  | 'perLayerInputOutput'
  | 'perLayerInputPostNorm'
  | 'layerScale'
  | 'laurelDown'
  | 'laurelUp'
  | 'laurelNorm'
  | 'streamNorm'
  | 'streamFeatures'
  | 'streamPrediction'
  | 'streamCorrection'
  | 'streamToldScale'
  | MlaRole
  | DeltaRole
  | SpaceRole
  | StackedRole
  | SwitchRole
  | ExpertRole;

/** Of MLA. */
type MlaRole =
  | 'latentQueryDown'
  | 'latentQueryNorm'
  | 'latentQuery'
  | 'latent'
  | 'kvNorm'
  | 'latentUp'
  | 'latentKeyUp'
  | 'latentValueUp';

/** Of a short convolution and a state space. */
type SpaceRole =
  | 'convolutionInput'
  | 'convolution'
  | 'convolutionOutput'
  | 'spaceInput'
  | 'spaceConvolution'
  | 'spaceStep'
  | 'spaceRate'
  | 'spaceSkip'
  | 'spaceNorm'
  | 'spaceOutput';

/** Of a gated delta net. */
type DeltaRole =
  | 'deltaQueryKeyValue'
  | 'deltaQueryKeyValueGate'
  | 'deltaGate'
  | 'deltaShare'
  | 'deltaDecay'
  | 'deltaShareDecay'
  | 'deltaConvolution'
  | 'deltaDecayBias'
  | 'deltaRate'
  | 'deltaNorm'
  | 'deltaOutput';

/** All experts in one tensor. */
type StackedRole = 'expertGates' | 'expertUps' | 'expertGateUps' | 'expertDowns';
/** All experts in one tensor, as mlx-lm stores them: gates and ups always apart, rows always outputs. */
type SwitchRole = 'switchGates' | 'switchUps' | 'switchDowns';
/** One tensor an expert: `*` in its name stands for the expert's number. */
type ExpertRole = 'expertGate' | 'expertUp' | 'expertDown';

/** How experts are stored: in tensors of their own, or all in one, as mlx-lm does or as others do. */
export type ExpertLayout = 'each' | 'switch' | 'stacked' | 'stacked with gates and ups in one';

/** What is there once for all layers, beside embedding, last norm and head. */
export type ModelRole =
  | 'positions'
  | 'textKinds'
  | 'embeddingNorm'
  | 'perLayerInputTable'
  | 'perLayerInputProjection'
  | 'perLayerInputNorm'
  | 'streamSpread'
  | 'streamGather';

/** Folders of mlx-lm are told by single tensors from those of the hub, whose names most of theirs have. */
export type Naming = 'gguf' | 'hugging-face';

/** Without its ending `.weight` or `.bias`; or both, where they end otherwise. */
type RoleName = string | { readonly weight: string; readonly bias: string };
export type RoleNames = Readonly<Partial<Record<LayerRole, RoleName>>> & {
  /** Behind all layers, without its ending. */
  readonly finalNorm?: string;
  readonly embedding?: string;
  readonly embeddingNorm?: string;
  /** What stands before a layer's number. */
  readonly layers?: string;
};

/** What the tensors of a family are called by each publisher, where that is not what is usual. */
export interface FamilyNames {
  readonly 'hugging-face'?: RoleNames;
  /** In folders of mlx-lm, where they have not the names of the hub. */
  readonly mlx?: RoleNames;
  readonly gguf?: RoleNames;
}

export interface TensorNames {
  readonly embedding: string;
  readonly finalNorm: string;
  readonly head: string;
  /** `*` in a name stands for a number. */
  model(role: ModelRole, number?: number): string;
  /** Names are those of a model saved without what continues texts. */
  readonly bodyAlone: boolean;
  weight(layer: number, role: LayerRole, expert?: number): string;
  bias(layer: number, role: LayerRole, expert?: number): string;
  /** Whether the file has the tensor. */
  has(layer: number, role: LayerRole, expert?: number): boolean;
}

const ggufRoles: RoleNames = {
  attentionNorm: 'attn_norm',
  query: 'attn_q',
  key: 'attn_k',
  value: 'attn_v',
  queryKeyValue: 'attn_qkv',
  output: 'attn_output',
  queryNorm: 'attn_q_norm',
  keyNorm: 'attn_k_norm',
  attentionPostNorm: 'post_attention_norm',
  sinks: 'attn_sinks',
  ffnNorm: 'ffn_norm',
  gate: 'ffn_gate',
  up: 'ffn_up',
  gateUp: 'ffn_up',
  down: 'ffn_down',
  ffnPostNorm: 'post_ffw_norm',
  router: 'ffn_gate_inp',
  routingBias: 'exp_probs_b',
  expertGates: 'ffn_gate_exps',
  expertUps: 'ffn_up_exps',
  expertGateUps: 'ffn_gate_up_exps',
  expertDowns: 'ffn_down_exps',
  expertGate: 'ffn_gate.*',
  expertUp: 'ffn_up.*',
  expertDown: 'ffn_down.*',
  sharedGate: 'ffn_gate_shexp',
  sharedUp: 'ffn_up_shexp',
  sharedDown: 'ffn_down_shexp',
  sharedShare: 'ffn_gate_inp_shexp',
  routerNorm: { weight: 'ffn_gate_inp.scale', bias: '' },
  expertScales: { weight: 'ffn_down_exps.scale', bias: '' },
  ffnOwnPostNorm: 'post_ffw_norm_1',
  expertsNorm: 'pre_ffw_norm_2',
  expertsPostNorm: 'post_ffw_norm_2',
  perLayerInputGate: 'inp_gate',
  perLayerInputOutput: 'proj',
  perLayerInputPostNorm: 'post_norm',
  layerScale: 'layer_output_scale',
  laurelDown: 'laurel_l',
  laurelUp: 'laurel_r',
  laurelNorm: 'laurel_post_norm',
  streamNorm: 'altup_router_norm',
  streamFeatures: 'altup_router',
  streamPrediction: 'altup_predict_coef',
  streamCorrection: 'altup_correct_coef',
  streamToldScale: 'altup_correct_scale',
  latentQueryDown: 'attn_q_a',
  latentQueryNorm: 'attn_q_a_norm',
  latentQuery: 'attn_q_b',
  latent: 'attn_kv_a_mqa',
  kvNorm: 'attn_kv_a_norm',
  latentUp: 'attn_kv_b',
  latentKeyUp: 'attn_k_b',
  latentValueUp: 'attn_v_b',
  deltaQueryKeyValue: 'attn_qkv',
  deltaGate: 'attn_gate',
  deltaShare: 'ssm_beta',
  deltaDecay: 'ssm_alpha',
  deltaShareDecay: 'ssm_ba',
  deltaConvolution: 'ssm_conv1d',
  deltaDecayBias: 'ssm_dt',
  deltaRate: { weight: 'ssm_a', bias: '' },
  deltaNorm: 'ssm_norm',
  deltaOutput: 'ssm_out',
  convolutionInput: 'shortconv.in_proj',
  convolution: 'shortconv.conv',
  convolutionOutput: 'shortconv.out_proj',
  spaceInput: 'ssm_in',
  spaceConvolution: 'ssm_conv1d',
  spaceStep: 'ssm_dt',
  spaceRate: { weight: 'ssm_a', bias: '' },
  spaceSkip: { weight: 'ssm_d', bias: '' },
  spaceNorm: 'ssm_norm',
  spaceOutput: 'ssm_out',
};

/** The names of models with a norm before each branch only. */
const huggingFaceRoles: RoleNames = {
  attentionNorm: 'input_layernorm',
  query: 'self_attn.q_proj',
  key: 'self_attn.k_proj',
  value: 'self_attn.v_proj',
  queryKeyValue: 'self_attn.qkv_proj',
  output: 'self_attn.o_proj',
  queryNorm: 'self_attn.q_norm',
  keyNorm: 'self_attn.k_norm',
  sinks: { weight: 'self_attn.sinks', bias: '' },
  ffnNorm: 'post_attention_layernorm',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  gateUp: 'mlp.gate_up_proj',
  down: 'mlp.down_proj',
  router: 'mlp.gate',
  routingBias: { weight: '', bias: 'mlp.gate.e_score_correction_bias' },
  expertGates: { weight: 'mlp.experts.gate_proj', bias: 'mlp.experts.gate_proj_bias' },
  expertUps: { weight: 'mlp.experts.up_proj', bias: 'mlp.experts.up_proj_bias' },
  expertGateUps: { weight: 'mlp.experts.gate_up_proj', bias: 'mlp.experts.gate_up_proj_bias' },
  expertDowns: { weight: 'mlp.experts.down_proj', bias: 'mlp.experts.down_proj_bias' },
  expertGate: 'mlp.experts.*.gate_proj',
  expertUp: 'mlp.experts.*.up_proj',
  expertDown: 'mlp.experts.*.down_proj',
  sharedGate: 'mlp.shared_expert.gate_proj',
  sharedUp: 'mlp.shared_expert.up_proj',
  sharedDown: 'mlp.shared_expert.down_proj',
  sharedShare: 'mlp.shared_expert_gate',
  routerNorm: { weight: 'router.scale', bias: '' },
  expertScales: { weight: 'router.per_expert_scale', bias: '' },
  ffnOwnPostNorm: 'post_feedforward_layernorm_1',
  expertsNorm: 'pre_feedforward_layernorm_2',
  expertsPostNorm: 'post_feedforward_layernorm_2',
  perLayerInputGate: 'per_layer_input_gate',
  perLayerInputOutput: 'per_layer_projection',
  perLayerInputPostNorm: 'post_per_layer_input_norm',
  layerScale: { weight: 'layer_scalar', bias: '' },
  laurelDown: 'laurel.linear_left',
  laurelUp: 'laurel.linear_right',
  laurelNorm: 'laurel.post_laurel_norm',
  streamNorm: 'altup.router_norm',
  streamFeatures: 'altup.modality_router',
  streamPrediction: 'altup.prediction_coefs',
  streamCorrection: 'altup.correction_coefs',
  streamToldScale: { weight: 'altup.correct_output_scale', bias: '' },
  latentQueryDown: 'self_attn.q_a_proj',
  latentQueryNorm: 'self_attn.q_a_layernorm',
  latentQuery: 'self_attn.q_b_proj',
  latent: 'self_attn.kv_a_proj_with_mqa',
  kvNorm: 'self_attn.kv_a_layernorm',
  latentUp: 'self_attn.kv_b_proj',
  deltaQueryKeyValue: 'linear_attn.in_proj_qkv',
  deltaQueryKeyValueGate: 'linear_attn.in_proj_qkvz',
  deltaGate: 'linear_attn.in_proj_z',
  deltaShare: 'linear_attn.in_proj_b',
  deltaDecay: 'linear_attn.in_proj_a',
  deltaShareDecay: 'linear_attn.in_proj_ba',
  deltaConvolution: 'linear_attn.conv1d',
  deltaDecayBias: { weight: '', bias: 'linear_attn.dt_bias' },
  deltaRate: { weight: 'linear_attn.A_log', bias: '' },
  deltaNorm: 'linear_attn.norm',
  deltaOutput: 'linear_attn.out_proj',
  convolutionInput: 'conv.in_proj',
  convolution: 'conv.conv',
  convolutionOutput: 'conv.out_proj',
  spaceInput: 'mamba.in_proj',
  spaceConvolution: 'mamba.conv1d',
  spaceStep: { weight: '', bias: 'mamba.dt_bias' },
  spaceRate: { weight: 'mamba.A_log', bias: '' },
  spaceSkip: { weight: 'mamba.D', bias: '' },
  spaceNorm: 'mamba.norm',
  spaceOutput: 'mamba.out_proj',
};

/** Experts of mlx-lm, by the module that holds them. */
export function switchNames(module: string): RoleNames {
  return {
    switchGates: `${module}.gate_proj`,
    switchUps: `${module}.up_proj`,
    switchDowns: `${module}.down_proj`,
  };
}

/** Where mlx-lm stores what the hub does not, or not so. */
const mlxRoles: RoleNames = {
  ...switchNames('mlp.switch_mlp'),
  latentKeyUp: 'self_attn.embed_q',
  latentValueUp: 'self_attn.unembed_out',
};

const ggufModelRoles: Readonly<Record<ModelRole, string>> = {
  positions: 'position_embd',
  textKinds: 'token_types',
  embeddingNorm: 'token_embd_norm',
  perLayerInputTable: 'per_layer_token_embd',
  perLayerInputProjection: 'per_layer_model_proj',
  perLayerInputNorm: 'per_layer_proj_norm',
  streamSpread: 'altup_proj',
  streamGather: 'altup_unembd_proj',
};

const huggingFaceModelRoles: Readonly<Record<ModelRole, string>> = {
  positions: 'embeddings.position_embeddings',
  textKinds: 'embeddings.token_type_embeddings',
  embeddingNorm: 'embeddings.LayerNorm',
  perLayerInputTable: 'embed_tokens_per_layer',
  perLayerInputProjection: 'per_layer_model_projection',
  perLayerInputNorm: 'per_layer_projection_norm',
  streamSpread: 'altup_projections.*',
  streamGather: 'altup_unembed_projections.*',
};

/** The names of models with norms before and after each branch, where they differ. */
export const sandwichNorms: RoleNames = {
  attentionPostNorm: 'post_attention_layernorm',
  ffnNorm: 'pre_feedforward_layernorm',
  ffnPostNorm: 'post_feedforward_layernorm',
};

/** The names of several experts for all rows, stored as one. */
export const sharedExpertsNames: RoleNames = {
  sharedGate: 'mlp.shared_experts.gate_proj',
  sharedUp: 'mlp.shared_experts.up_proj',
  sharedDown: 'mlp.shared_experts.down_proj',
};

// A text model may lie inside a multimodal checkpoint, whose age decides which prefix it has. An embedding model is often
// saved as the body alone.
const huggingFacePrefixes = [
  { body: 'model.', head: '' },
  { body: 'language_model.model.', head: 'language_model.' },
  { body: 'model.language_model.', head: '' },
  { body: '', head: '' },
  { body: 'bert.', head: '' },
] as const;

/** `own` are names that differ from what is usual. */
export function tensorNames(naming: Naming, weights: Tensors, own: FamilyNames = {}): TensorNames {
  return naming === 'gguf' ? ggufNames(weights, own.gguf) : folderNames(weights, own);
}

/** Who names tensors. */
export type Publisher = Naming | 'mlx';

/** What a publisher calls them, whatever the file at hand does. */
export function publishedNames(publisher: Publisher, own: FamilyNames = {}): TensorNames {
  const none: Tensors = { tensors: new Map() };
  return publisher === 'gguf' ? ggufNames(none, own.gguf) : folderNames(none, own, publisher);
}

type Tensors = Pick<WeightSource, 'tensors'>;

function ggufNames(weights: Tensors, own: RoleNames | undefined): TensorNames {
  return {
    embedding: 'token_embd.weight',
    finalNorm: `${own?.finalNorm ?? 'output_norm'}.weight`,
    head: 'output.weight',
    model: (role) => `${ggufModelRoles[role]}.weight`,
    bodyAlone: false,
    ...layerNames('blk.', [{ ...ggufRoles, ...own }], weights),
  };
}

/** Names of the publisher count where the file has none of both. */
function folderNames(
  weights: Tensors,
  { 'hugging-face': own, mlx }: FamilyNames,
  publisher: Exclude<Publisher, 'gguf'> = 'hugging-face',
): TensorNames {
  const hubNames = { ...huggingFaceRoles, ...own };
  const mlxNames = { ...mlxRoles, ...mlx };
  const embedding = `${own?.embedding ?? 'embed_tokens'}.weight`;
  const prefix =
    huggingFacePrefixes.find(({ body }) => weights.tensors.has(body + embedding)) ?? huggingFacePrefixes[0];
  const { embeddingNorm = huggingFaceModelRoles.embeddingNorm } = own ?? {};
  const modelRoles = { ...huggingFaceModelRoles, embeddingNorm };
  return {
    embedding: prefix.body + embedding,
    finalNorm: `${prefix.body}${own?.finalNorm ?? 'norm'}.weight`,
    head: `${prefix.head}lm_head.weight`,
    model: (role, number) => `${prefix.body}${modelRoles[role].replace('*', String(number))}.weight`,
    bodyAlone: prefix.body === '',
    ...layerNames(
      `${prefix.body}${own?.layers ?? 'layers'}.`,
      publisher === 'mlx' ? [mlxNames, hubNames] : [hubNames, mlxNames],
      weights,
    ),
  };
}

/** By the first table whose weight the file has; by the first one where it has none. */
function layerNames(
  prefix: string,
  tables: readonly RoleNames[],
  { tensors }: Tensors,
): Pick<TensorNames, 'weight' | 'bias' | 'has'> {
  type Place = Parameters<TensorNames['has']>;
  const spell = (name: RoleName, ending: 'weight' | 'bias', [layer, , expert]: Place) => {
    const whole = typeof name === 'string' ? `${name}.${ending}` : name[ending];
    return `${prefix}${layer}.${whole.replace('*', String(expert))}`;
  };
  const nameOf = (place: Place): RoleName => {
    const known = tables.map((table) => table[place[1]]).filter((name) => name !== undefined);
    return known.find((name) => tensors.has(spell(name, 'weight', place))) ?? known[0] ?? place[1];
  };
  const weight: TensorNames['weight'] = (...place) => spell(nameOf(place), 'weight', place);
  return {
    weight,
    bias: (...place) => spell(nameOf(place), 'bias', place),
    has: (...place) => tensors.has(weight(...place)),
  };
}
