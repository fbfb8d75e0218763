// The same tiny Llama in every weight format, as files in memory: what the fuzz test damages.

import { type GgufContent, type HeaderField, writeGguf } from '../support/gguf-writer.ts';
import {
  float32Bytes,
  type SafetensorsWriterTensor,
  writeSafetensors,
} from '../support/safetensors-writer.ts';

export interface Specimen {
  readonly name: string;
  readonly files: Readonly<Record<string, Buffer>>;
  /** The file to open; the folder itself where absent. */
  readonly entry?: string;
  /** The file that is damaged byte by byte, and how much of it is header. */
  readonly target: string;
  readonly headerBytes: number;
  readonly fields: readonly HeaderField[];
}

const HIDDEN = 64;
const VOCABULARY = 8;

/** Rows and columns; norms have one row. */
const shapes: readonly (readonly [gguf: string, huggingFace: string, rows: number])[] = [
  ['token_embd', 'model.embed_tokens', VOCABULARY],
  ['blk.0.attn_norm', 'model.layers.0.input_layernorm', 1],
  ['blk.0.attn_q', 'model.layers.0.self_attn.q_proj', HIDDEN],
  ['blk.0.attn_k', 'model.layers.0.self_attn.k_proj', HIDDEN / 2],
  ['blk.0.attn_v', 'model.layers.0.self_attn.v_proj', HIDDEN / 2],
  ['blk.0.attn_output', 'model.layers.0.self_attn.o_proj', HIDDEN],
  ['blk.0.ffn_norm', 'model.layers.0.post_attention_layernorm', 1],
  ['blk.0.ffn_gate', 'model.layers.0.mlp.gate_proj', HIDDEN],
  ['blk.0.ffn_up', 'model.layers.0.mlp.up_proj', HIDDEN],
  ['blk.0.ffn_down', 'model.layers.0.mlp.down_proj', HIDDEN],
  ['output_norm', 'model.norm', 1],
];

const config = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: HIDDEN,
  intermediate_size: HIDDEN,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  vocab_size: VOCABULARY,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: true,
  hidden_act: 'silu',
};

export function specimens(): readonly Specimen[] {
  return [gguf(2), gguf(3), splitGguf(), safetensors(), sharded(), mlx()];
}

function ggufContent(version: number): GgufContent {
  return {
    version,
    metadata: {
      'general.architecture': { type: 'string', value: 'llama' },
      'general.alignment': { type: 'u32', value: 32 },
      'llama.embedding_length': { type: 'u32', value: HIDDEN },
      'llama.feed_forward_length': { type: 'u32', value: HIDDEN },
      'llama.block_count': { type: 'u32', value: 1 },
      'llama.context_length': { type: 'u64', value: 128n },
      'llama.attention.head_count': { type: 'u32', value: 2 },
      'llama.attention.head_count_kv': { type: 'u32', value: 1 },
      'llama.attention.layer_norm_rms_epsilon': { type: 'f32', value: 1e-5 },
      'llama.rope.freq_base': { type: 'f32', value: 10_000 },
      'tokenizer.ggml.model': { type: 'string', value: 'llama' },
      'tokenizer.ggml.tokens': { type: 'strings', value: ['<s>', 'a', 'b', '東', '', 'e', 'f', 'g'] },
      'tokenizer.ggml.scores': { type: 'f32s', value: [0, -1, -2, -3, -4, -5, -6, -7] },
      'tokenizer.ggml.token_type': { type: 'i32s', value: [3, 1, 1, 1, 1, 1, 1, 1] },
      'tokenizer.ggml.bos_token_id': { type: 'u32', value: 0 },
      'tokenizer.ggml.eos_token_id': { type: 'u32', value: 1 },
      'tokenizer.chat_template': {
        type: 'string',
        value: '{% for m in messages %}{{ m.content }}{% endfor %}',
      },
      'tokenizer.ggml.add_bos_token': { type: 'bool', value: true },
      'test.flags': { type: 'bools', value: [true, false] },
    },
    tensors: shapes.map(([name, , rows]) =>
      rows === 1
        ? { name: `${name}.weight`, type: 'F32', shape: [HIDDEN], bytes: float32Bytes(values(HIDDEN)) }
        : {
            name: `${name}.weight`,
            type: 'Q8_0',
            shape: [rows, HIDDEN],
            bytes: bytes((rows * HIDDEN * 34) / 32),
          },
    ),
  };
}

function gguf(version: number): Specimen {
  const { bytes: file, fields } = writeGguf(ggufContent(version));
  return {
    name: `GGUF version ${version}`,
    files: { 'model.gguf': file },
    entry: 'model.gguf',
    target: 'model.gguf',
    headerBytes: headerEnd(fields),
    fields,
  };
}

function splitGguf(): Specimen {
  const { metadata, tensors } = ggufContent(3);
  const part = (index: number, own: GgufContent['tensors']) =>
    writeGguf({
      metadata: {
        ...(index === 0 ? metadata : {}),
        'split.no': { type: 'u16', value: index },
        'split.count': { type: 'u16', value: 2 },
        'split.tensors.count': { type: 'i32', value: tensors.length },
      },
      tensors: own,
    });
  const first = part(0, tensors.slice(0, 4));
  const second = part(1, tensors.slice(4));
  const target = 'model-00002-of-00002.gguf';
  return {
    name: 'split GGUF',
    files: { 'model-00001-of-00002.gguf': first.bytes, [target]: second.bytes },
    target,
    headerBytes: headerEnd(second.fields),
    fields: second.fields,
  };
}

function safetensors(): Specimen {
  const file = writeSafetensors(floatTensors());
  return folder(
    'safetensors',
    { 'config.json': json(config), 'model.safetensors': file },
    'model.safetensors',
  );
}

function sharded(): Specimen {
  const tensors = floatTensors();
  const shards = [tensors.slice(0, 4), tensors.slice(4)];
  const weightMap = shards.flatMap((shard, index) =>
    shard.map(({ name }) => [name, shardName(index)] as const),
  );
  const files = {
    'config.json': json(config),
    'model.safetensors.index.json': json({ weight_map: Object.fromEntries(weightMap) }),
    [shardName(0)]: writeSafetensors(shards[0] ?? []),
    [shardName(1)]: writeSafetensors(shards[1] ?? []),
  };
  return folder('sharded safetensors', files, shardName(1));
}

function mlx(): Specimen {
  const tensors = shapes.flatMap(([, name, rows], index) => {
    if (rows === 1) return [floatTensor(`${name}.weight`, [HIDDEN])];
    const bits = index % 2 === 0 ? 4 : 8;
    return [
      {
        name: `${name}.weight`,
        dtype: 'U32',
        shape: [rows, (HIDDEN * bits) / 32],
        bytes: bytes((rows * HIDDEN * bits) / 8),
      },
      floatTensor(`${name}.scales`, [rows, HIDDEN / 32]),
      floatTensor(`${name}.biases`, [rows, HIDDEN / 32]),
    ];
  });
  const overrides = shapes
    .filter(([, , rows], index) => rows > 1 && index % 2 === 1)
    .map(([, name]) => [name, { group_size: 32, bits: 8 }]);
  const quantization = { group_size: 32, bits: 4, ...Object.fromEntries(overrides) };
  const files = {
    'config.json': json({ ...config, quantization }),
    'model.safetensors': writeSafetensors(tensors),
  };
  return folder('MLX folder', files, 'model.safetensors');
}

function folder(name: string, files: Readonly<Record<string, Buffer>>, target: string): Specimen {
  const length = files[target]?.readUInt32LE(0) ?? 0;
  const fields: readonly HeaderField[] = [{ name: 'header length', offset: 0, bytes: 8 }];
  return { name, files, target, headerBytes: 8 + length, fields };
}

function floatTensors(): readonly SafetensorsWriterTensor[] {
  return shapes.map(([, name, rows]) =>
    rows === 1 ? floatTensor(`${name}.weight`, [HIDDEN]) : floatTensor(`${name}.weight`, [rows, HIDDEN]),
  );
}

function floatTensor(name: string, shape: readonly number[]): SafetensorsWriterTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return { name, dtype: 'F32', shape, bytes: float32Bytes(values(count)) };
}

function values(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => ((index * 7) % 13) / 13);
}

function bytes(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, index) => (index * 29) % 64);
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function shardName(index: number): string {
  return `model-0000${index + 1}-of-00002.safetensors`;
}

function headerEnd(fields: readonly HeaderField[]): number {
  return Math.max(...fields.map((field) => field.offset + field.bytes));
}
