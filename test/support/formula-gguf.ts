// Formula models in the form that GGUF files have: named, stacked and ordered as the tool that converts Hugging Face
// folders does it.

import type { GgufValue } from '../../src/weights/gguf-metadata.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { type FormulaModel, type FormulaTensor, formulaTensors } from './formula-model.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';

const renamed: readonly (readonly [RegExp, string])[] = [
  [/^model\.layers\.(\d+)\./, 'blk.$1.'],
  [/^model\.embed_tokens_per_layer/, 'per_layer_token_embd'],
  [/^model\.embed_tokens/, 'token_embd'],
  [/^model\.norm/, 'output_norm'],
  [/^model\.per_layer_model_projection/, 'per_layer_model_proj'],
  [/^model\.per_layer_projection_norm/, 'per_layer_proj_norm'],
  [/^lm_head/, 'output'],
  [/^(blk\.\d+)\.(enorm|hnorm|eh_proj|embed_tokens)/, '$1.nextn.$2'],
  [/^(blk\.\d+)\.shared_head\.(norm|head)/, '$1.nextn.shared_head_$2'],
  [/^mtp\.layers\.0\./, 'blk.ahead.'],
  [/^mtp\.fc/, 'blk.ahead.nextn.eh_proj'],
  [/^mtp\.pre_fc_norm_embedding/, 'blk.ahead.nextn.enorm'],
  [/^mtp\.pre_fc_norm_hidden/, 'blk.ahead.nextn.hnorm'],
  [/^mtp\.norm/, 'blk.ahead.nextn.shared_head_norm'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.qkv_proj/, 'attn_qkv'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/self_attn\.([qk])_norm/, 'attn_$1_norm'],
  [/self_attn\.sinks/, 'attn_sinks.weight'],
  [/self_attn\.q_([ab])_proj/, 'attn_q_$1'],
  [/self_attn\.(q|kv)_a_layernorm/, 'attn_$1_a_norm'],
  [/self_attn\.kv_a_proj_with_mqa/, 'attn_kv_a_mqa'],
  [/input_layernorm/, 'attn_norm'],
  [/(pre|post)_feedforward_layernorm_([12])/, '$1_ffw_norm_$2'],
  [/pre_feedforward_layernorm/, 'ffn_norm'],
  [/post_feedforward_layernorm/, 'post_ffw_norm'],
  [/(mlp|feed_forward)\.shared_experts?\.(gate|up|down)_proj/, 'ffn_$2_shexp'],
  [/(mlp|feed_forward)\.(gate|up|down)_proj/, 'ffn_$2'],
  [/mlp\.c_fc/, 'ffn_up'],
  [/mlp\.c_proj/, 'ffn_down'],
  [/mlp\.gate_up_proj/, 'ffn_up'],
  [/mlp\.gate\.e_score_correction_bias/, 'exp_probs_b.bias'],
  [/router\.per_expert_scale/, 'ffn_down_exps.scale'],
  [/router\.scale/, 'ffn_gate_inp.scale'],
  [/(mlp\.gate|block_sparse_moe\.gate|mlp\.router|router\.proj|router\.layer)\./, 'ffn_gate_inp.'],
  [/block_sparse_moe\.ffn_gate_inp/, 'ffn_gate_inp'],
  [/per_layer_input_gate/, 'inp_gate'],
  [/post_per_layer_input_norm/, 'post_norm'],
  [/per_layer_projection/, 'proj'],
  [/layer_scalar/, 'layer_output_scale.weight'],
];

/** What differs between the ways of families. */
export interface GgufForm {
  readonly architecture: string;
  /** Keys behind the architecture's prefix. */
  readonly keys?: Readonly<Record<string, GgufValue>>;
  readonly extra?: readonly FormulaTensor[];
  /** What `post_attention_layernorm` is called; the norm of the feed-forward unless it is said. */
  readonly postAttention?: 'post_attention_norm';
  /** Rows of q and k are stored for rotary pairs. */
  readonly pairs?: boolean;
  /** 1 is added to the weights of norms. */
  readonly raisesNorms?: boolean;
}

export function asGguf(model: FormulaModel, form: GgufForm): OpenedModel {
  const { architecture, keys, extra = [], postAttention = 'ffn_norm' } = form;
  const number = (field: string): number => Number(model.config[field]);
  const heads = { q_proj: number('num_attention_heads'), k_proj: number('num_key_value_heads') };
  const tensors = withSplitLatent(model, withStackedExperts(formulaTensors(model))).map((tensor) => {
    const { name } = tensor;
    const projection = /self_attn\.([qk]_proj)/.exec(name)?.[1] as keyof typeof heads | undefined;
    if (form.pairs && projection !== undefined) return interleave(tensor, heads[projection]);
    const raises = form.raisesNorms && name.includes('norm');
    return raises ? { ...tensor, values: tensor.values.map((value) => value + 1) } : tensor;
  });
  const epsilon = model.config.rms_norm_eps === undefined ? 'layer_norm_epsilon' : 'layer_norm_rms_epsilon';
  const all = {
    block_count: number('num_hidden_layers'),
    context_length: number('max_position_embeddings'),
    embedding_length: number('hidden_size'),
    feed_forward_length: number('intermediate_size'),
    'attention.head_count': number('num_attention_heads'),
    'attention.head_count_kv': number('num_key_value_heads'),
    [`attention.${epsilon}`]: Number(model.config.rms_norm_eps ?? model.config.layer_norm_eps ?? 1e-5),
    ...keys,
  };
  const metadata = new Map<string, GgufValue>([['general.architecture', architecture]]);
  for (const [key, value] of Object.entries(all)) metadata.set(`${architecture}.${key}`, value);
  // An MTP head's layer comes behind those of the model.
  const ahead = `blk.${number('num_hidden_layers')}.`;
  const named = (name: string): string =>
    ggufName(name.replace('post_attention_layernorm', postAttention)).replace('blk.ahead.', ahead);
  const weights = memoryWeights(
    [...tensors, ...extra].map(({ name, shape, values }) => floatTensor(named(name), shape, values)),
  );
  return { format: 'gguf', path: 'made.gguf', version: 3, metadata, weights };
}

/** What a GGUF file calls a tensor of a folder. */
export function ggufName(name: string): string {
  return renamed.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), name);
}

/** Rows of each head from halves (i, i + half) to pairs (2i, 2i + 1). */
export function interleave(tensor: FormulaTensor, heads: number): FormulaTensor {
  const rows = tensor.shape[0] ?? 0;
  const columns = tensor.values.length / rows;
  const half = rows / heads / 2;
  const values = new Float32Array(tensor.values.length);
  for (let row = 0; row < rows; row++) {
    const pair = row % half;
    const second = Math.floor(row / half) % 2;
    const target = row - (row % (2 * half)) + 2 * pair + second;
    values.set(tensor.values.subarray(row * columns, (row + 1) * columns), target * columns);
  }
  return { ...tensor, values };
}

const parts: Readonly<Record<string, string>> = { w1: 'gate_proj', w2: 'down_proj', w3: 'up_proj' };

/** Experts of a layer in one tensor for gates, one for ups and one for downs. */
function withStackedExperts(tensors: readonly FormulaTensor[]): FormulaTensor[] {
  const stacks = new Map<string, FormulaTensor[]>();
  const others: FormulaTensor[] = [];
  for (const tensor of tensors) {
    const [, layer, part] = /^(.*\.)\w+\.experts\.\d+\.(\w+)\.weight$/.exec(tensor.name) ?? [];
    if (part === undefined) {
      others.push(...splitGateUps(tensor));
      continue;
    }
    const name = `${layer}ffn_${(parts[part] ?? part).replace('_proj', '')}_exps.weight`;
    stacks.set(name, [...(stacks.get(name) ?? []), tensor]);
  }
  for (const [name, stack] of stacks) {
    const shape = [stack.length, ...(stack[0]?.shape ?? [])];
    others.push({ name, shape, values: joined(stack.map(({ values }) => values)) });
  }
  return others;
}

function joined(parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]));
}

/** Gates and ups that experts hold together: one behind the other, or by turns with inputs as rows (gpt-oss). */
function splitGateUps(tensor: FormulaTensor): FormulaTensor[] {
  const { name, shape, values } = tensor;
  const [, layer, part] =
    /^(model\.layers\.\d+\.)(?:\w+\.)?(?:experts\.)?(\w+?)(?:\.weight)?$/.exec(name) ?? [];
  const [experts = 0, first = 0, second = 0] = shape;
  const turned = name.includes('mlp.experts');
  const stack = (role: string, to: readonly number[], at: (index: number) => number): FormulaTensor => ({
    name: `${layer}ffn_${role}`,
    shape: [experts, ...to],
    values: Float32Array.from(
      { length: to.reduce((product, size) => product * size, experts) },
      (_, index) => values[at(index)] as number,
    ),
  });
  const both = (ending: string, to: readonly number[], at: (index: number, turn: number) => number) =>
    ['gate', 'up'].map((role, turn) => stack(`${role}_exps.${ending}`, to, (index) => at(index, turn)));
  switch (part) {
    case 'gate_up_proj_bias':
      return both('bias', [first / 2], (index, turn) => 2 * index + turn);
    case 'down_proj_bias':
      return [{ ...tensor, name: `${layer}ffn_down_exps.bias` }];
    case 'gate_up_proj':
    case 'input_linear':
      if (second === 0) return [tensor];
      if (turned) {
        return both('weight', [second / 2, first], (index, turn) => {
          const [matrix, row, input] = split(index, second / 2, first);
          return (matrix * first + input) * second + 2 * row + turn;
        });
      }
      return both('weight', [first / 2, second], (index, turn) => {
        const half = (first / 2) * second;
        return index + (Math.floor(index / half) + turn) * half;
      });
    case 'down_proj':
    case 'output_linear':
      if (second === 0) return [tensor];
      if (!turned) return [{ ...tensor, name: `${layer}ffn_down_exps.weight` }];
      return [
        stack('down_exps.weight', [second, first], (index) => {
          const [matrix, row, input] = split(index, second, first);
          return (matrix * first + input) * second + row;
        }),
      ];
    default:
      return [tensor];
  }
}

/** Matrix, row and column of a place in matrices one behind the other. */
function split(index: number, rows: number, columns: number): [matrix: number, row: number, column: number] {
  return [Math.floor(index / (rows * columns)), Math.floor(index / columns) % rows, index % columns];
}

/** Maps from a latent to keys, turned, and to values, each by itself. */
function withSplitLatent({ config }: FormulaModel, tensors: readonly FormulaTensor[]): FormulaTensor[] {
  return tensors.flatMap((tensor) => {
    if (!tensor.name.includes('kv_b_proj')) return [tensor];
    const heads = Number(config.num_attention_heads);
    const rank = Number(config.kv_lora_rank);
    const [keys, values] = [Number(config.qk_nope_head_dim), Number(config.v_head_dim)];
    const every = (keys + values) * rank;
    const made = (part: string, shape: readonly number[], at: (head: number, index: number) => number) => ({
      name: tensor.name.replace('self_attn.kv_b_proj', `attn_${part}_b`),
      shape: [heads, ...shape],
      values: joined(
        Array.from({ length: heads }, (_, head) =>
          Float32Array.from(
            { length: (shape[0] ?? 0) * (shape[1] ?? 0) },
            (_, index) => tensor.values[at(head, index)] as number,
          ),
        ),
      ),
    });
    return [
      made(
        'k',
        [rank, keys],
        (head, index) => head * every + (index % keys) * rank + Math.floor(index / keys),
      ),
      made('v', [values, rank], (head, index) => head * every + keys * rank + index),
    ];
  });
}
