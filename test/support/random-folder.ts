// Folders with small random models of families that have experts or remember, for tests that need files.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Random, seededRandom } from './random-blocks.ts';
import { type SafetensorsWriterTensor, writeSafetensors } from './safetensors-writer.ts';

type Shapes = Readonly<Record<string, readonly number[]>>;

interface Family {
  readonly config: Readonly<Record<string, unknown>>;
  readonly shapes: Shapes;
}

const HIDDEN = 64;
const HEAD = 32;
const EXPERT = 32;
const EXPERTS = 8;

const common = {
  hidden_size: HIDDEN,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: HEAD,
  vocab_size: 512,
  max_position_embeddings: 1024,
  rms_norm_eps: 1e-6,
  num_experts: EXPERTS,
  num_experts_per_tok: 2,
  moe_intermediate_size: EXPERT,
  norm_topk_prob: true,
  tie_word_embeddings: true,
  rope_parameters: { rope_theta: 10_000, rope_type: 'default', partial_rotary_factor: 0.25 },
} as const;

const attention = (queryRows: number): Shapes => ({
  'self_attn.q_proj.weight': [queryRows, HIDDEN],
  'self_attn.k_proj.weight': [2 * HEAD, HIDDEN],
  'self_attn.v_proj.weight': [2 * HEAD, HIDDEN],
  'self_attn.o_proj.weight': [HIDDEN, 4 * HEAD],
  'self_attn.q_norm.weight': [HEAD],
  'self_attn.k_norm.weight': [HEAD],
});

const KEY = 16;
const gatedDeltaNet: Shapes = {
  'linear_attn.in_proj_qkv.weight': [2 * 2 * KEY + 4 * KEY, HIDDEN],
  'linear_attn.in_proj_z.weight': [4 * KEY, HIDDEN],
  'linear_attn.in_proj_b.weight': [4, HIDDEN],
  'linear_attn.in_proj_a.weight': [4, HIDDEN],
  'linear_attn.conv1d.weight': [2 * 2 * KEY + 4 * KEY, 1, 4],
  'linear_attn.A_log': [4],
  'linear_attn.dt_bias': [4],
  'linear_attn.norm.weight': [KEY],
  'linear_attn.out_proj.weight': [HIDDEN, 4 * KEY],
};

const swiglu = (prefix: string): Shapes => ({
  [`${prefix}.gate_proj.weight`]: [EXPERT, HIDDEN],
  [`${prefix}.up_proj.weight`]: [EXPERT, HIDDEN],
  [`${prefix}.down_proj.weight`]: [HIDDEN, EXPERT],
});

const experts: Shapes = Object.assign(
  { 'mlp.gate.weight': [EXPERTS, HIDDEN] },
  ...Array.from({ length: EXPERTS }, (_, expert) => swiglu(`mlp.experts.${expert}`)),
);

const norms: Shapes = { 'input_layernorm.weight': [HIDDEN], 'post_attention_layernorm.weight': [HIDDEN] };

function layers(...all: readonly Shapes[]): Shapes {
  const named = all.map((layer, index) =>
    Object.fromEntries(
      Object.entries({ ...norms, ...experts, ...layer }).map(([name, shape]) => [
        `model.layers.${index}.${name}`,
        shape,
      ]),
    ),
  );
  return Object.assign(
    { 'model.embed_tokens.weight': [512, HIDDEN], 'model.norm.weight': [HIDDEN] },
    ...named,
  );
}

const shared: Shapes = { ...swiglu('mlp.shared_expert'), 'mlp.shared_expert_gate.weight': [1, HIDDEN] };

/** With experts; and with experts and layers that remember. */
const families = {
  qwen3_moe: {
    config: { ...common, model_type: 'qwen3_moe', num_hidden_layers: 2 },
    shapes: layers(attention(4 * HEAD), attention(4 * HEAD)),
  },
  qwen3_5_moe: {
    config: {
      ...common,
      model_type: 'qwen3_5_moe_text',
      num_hidden_layers: 3,
      layer_types: ['linear_attention', 'full_attention', 'linear_attention'],
      linear_conv_kernel_dim: 4,
      linear_key_head_dim: KEY,
      linear_value_head_dim: KEY,
      linear_num_key_heads: 2,
      linear_num_value_heads: 4,
      shared_expert_intermediate_size: EXPERT,
    },
    shapes: layers(
      { ...gatedDeltaNet, ...shared },
      { ...attention(2 * 4 * HEAD), ...shared },
      { ...gatedDeltaNet, ...shared },
    ),
  },
} as const satisfies Record<string, Family>;

type RandomFamily = keyof typeof families;
export const randomFamilies = Object.keys(families) as RandomFamily[];

/** Fills a folder that exists. */
export function writeRandomFolder(folder: string, family: RandomFamily, seed = 1): void {
  const { config, shapes } = families[family];
  const random = seededRandom(seed);
  const tensors = Object.entries(shapes as Shapes).map(([name, shape]) => tensor(name, shape, random));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
}

const mtpHead: Shapes = {
  'mtp.fc.weight': [HIDDEN, 2 * HIDDEN],
  'mtp.pre_fc_norm_embedding.weight': [HIDDEN],
  'mtp.pre_fc_norm_hidden.weight': [HIDDEN],
  'mtp.norm.weight': [HIDDEN],
  ...prefixed('mtp.layers.0', { ...norms, ...experts, ...attention(2 * 4 * HEAD), ...shared }),
};

/**
 * A model with an MTP head, of a vocabulary of so many tokens; fills a folder that exists. The head is never right, or always: then
 * nothing but the newest token says what comes next.
 */
export function writeFolderWithMtp(
  folder: string,
  head: 'never right' | 'always right',
  vocabSize: number,
): void {
  const { config, shapes } = families.qwen3_5_moe;
  const random = seededRandom(3);
  const own = { ...shapes, ...mtpHead, 'lm_head.weight': [vocabSize, HIDDEN] };
  const all: Shapes = { ...own, 'model.embed_tokens.weight': [vocabSize, HIDDEN] };
  const tensors = Object.entries(all).map(([name, shape]) => {
    const made = tensor(name, shape, random);
    return head === 'always right' ? { ...made, bytes: withoutLayers(name, shape) ?? made.bytes } : made;
  });
  const whole = { ...config, vocab_size: vocabSize, tie_word_embeddings: false };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(whole));
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
}

/** Layers add nothing, norms are all alike, and the head hands the token on; undefined where a tensor may be as it is. */
function withoutLayers(name: string, shape: readonly number[]): Uint8Array | undefined {
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  if (name === 'mtp.fc.weight') for (let i = 0; i < HIDDEN; i++) values[i * 2 * HIDDEN + i] = 1;
  else if (!/(o|out|down)_proj\.weight$|(?<!linear_attn\.)norm\w*\.weight$/.test(name)) return undefined;
  return new Uint8Array(values.buffer);
}

function prefixed(prefix: string, shapes: Shapes): Shapes {
  return Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [`${prefix}.${name}`, shape]));
}

/** An adapter in the form of PEFT's for every matrix of a model that takes one; fills a folder that exists. */
export function writeRandomAdapter(folder: string, family: RandomFamily, seed: number): void {
  const random = seededRandom(seed);
  const targets = Object.entries(families[family].shapes as Shapes).filter(([name]) =>
    /(self_attn\.[qkvo]_proj|linear_attn\.(in|out)_proj\w*|mlp\.shared_expert\.\w+_proj)\.weight$/.test(name),
  );
  const tensors = targets.flatMap(([name, [rows = 0, columns = 0]]) => {
    const module = `base_model.model.${name.replace('.weight', '')}`;
    return [
      tensor(`${module}.lora_A.weight`, [8, columns], random),
      tensor(`${module}.lora_B.weight`, [rows, 8], random),
    ];
  });
  writeFileSync(
    join(folder, 'adapter_config.json'),
    JSON.stringify({ peft_type: 'LORA', r: 8, lora_alpha: 2 }),
  );
  writeFileSync(join(folder, 'adapter_model.safetensors'), writeSafetensors(tensors));
}

function tensor(name: string, shape: readonly number[], random: Random): SafetensorsWriterTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  // Wide enough that likely tokens differ from place to place.
  const spread = shape.length === 1 ? 0.3 : 4 * (shape.at(-1) as number) ** -0.5;
  const values = Float32Array.from({ length: count }, () => spread * (2 * random() - 1));
  return { name, dtype: 'F32', shape, bytes: new Uint8Array(values.buffer) };
}
