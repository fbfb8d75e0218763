// The same tiny Llama in every weight format, as files in memory: what the fuzz test damages.

import { supportedTypes } from '../../src/weights/gguf-tensors.ts';
import { tensorLayouts } from '../../src/weights/tensor-type.ts';
import { type GgufContent, type HeaderField, writeGguf } from '../support/gguf-writer.ts';
import { randomBlocks, seededRandom } from '../support/random-blocks.ts';
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
/** How modules of an MLX folder are stored, in turns: with N bits, or in a mode of floats. */
const mlxKinds: readonly { readonly bits: number; readonly group: number; readonly mode?: string }[] = [
  ...[4, 8, 2, 3, 6].map((bits) => ({ bits, group: 32 })),
  { bits: 4, group: 32, mode: 'mxfp4' },
  { bits: 4, group: 16, mode: 'nvfp4' },
  { bits: 8, group: 32, mode: 'mxfp8' },
];
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
  return [
    gguf(2),
    gguf(3, everyType()),
    encoder(),
    splitGguf(),
    laterPart(),
    safetensors(),
    sharded(),
    mlx(),
    mxfp4(),
    fp8(),
    compressed(),
    gptq(),
    awq(),
    packed(),
    bitsAndBytes(),
  ];
}

/** Beside those that the model needs, a small stack of matrices of every type. */
function everyType(): GgufContent['tensors'] {
  const random = seededRandom(1);
  return [...supportedTypes.values()].map((type) => ({
    name: `some.${type}`,
    type,
    shape: [2, 1, 256],
    bytes: randomBlocks(type, (2 * 256) / tensorLayouts[type].blockSize, random),
  }));
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

function gguf(version: number, others: GgufContent['tensors'] = []): Specimen {
  const { tensors, ...content } = ggufContent(version);
  const { bytes: file, fields } = writeGguf({ ...content, tensors: [...tensors, ...others] });
  return {
    name: `GGUF version ${version}`,
    files: { 'model.gguf': file },
    entry: 'model.gguf',
    target: 'model.gguf',
    headerBytes: headerEnd(fields),
    fields,
  };
}

/** A BERT with a WordPiece vocabulary. */
function encoder(): Specimen {
  const number = (value: number) => ({ type: 'u32', value }) as const;
  const tensor = (name: string, ...shape: readonly number[]): GgufContent['tensors'][number] => ({
    name,
    type: 'F32',
    shape,
    bytes: float32Bytes(values(shape.reduce((product, size) => product * size, 1))),
  });
  const both = (name: string, rows: number, columns?: number) => [
    tensor(`${name}.weight`, rows, ...(columns === undefined ? [] : [columns])),
    tensor(`${name}.bias`, rows),
  ];
  const { bytes: file, fields } = writeGguf({
    metadata: {
      'general.architecture': { type: 'string', value: 'bert' },
      'bert.embedding_length': number(HIDDEN),
      'bert.feed_forward_length': number(HIDDEN),
      'bert.block_count': number(1),
      'bert.context_length': number(16),
      'bert.attention.head_count': number(2),
      'bert.attention.layer_norm_epsilon': { type: 'f32', value: 1e-12 },
      'bert.attention.causal': { type: 'bool', value: false },
      'bert.pooling_type': number(2),
      'tokenizer.ggml.model': { type: 'string', value: 'bert' },
      'tokenizer.ggml.tokens': {
        type: 'strings',
        value: ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '▁a', 'b', '▁東', ''],
      },
      'tokenizer.ggml.token_type': { type: 'i32s', value: [3, 3, 3, 3, 1, 1, 1, 1] },
      'tokenizer.ggml.seperator_token_id': number(3),
      'tokenizer.ggml.cls_token_id': number(2),
      'tokenizer.ggml.unknown_token_id': number(1),
    },
    tensors: [
      tensor('token_embd.weight', VOCABULARY, HIDDEN),
      tensor('position_embd.weight', 16, HIDDEN),
      tensor('token_types.weight', 2, HIDDEN),
      ...['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_up', 'ffn_down'].flatMap((name) =>
        both(`blk.0.${name}`, HIDDEN, HIDDEN),
      ),
      ...['token_embd_norm', 'blk.0.attn_output_norm', 'blk.0.layer_output_norm'].flatMap((name) =>
        both(name, HIDDEN),
      ),
      tensor('dense_2.weight', HIDDEN, HIDDEN),
    ],
  });
  return {
    name: 'GGUF of an encoder',
    files: { 'model.gguf': file },
    entry: 'model.gguf',
    target: 'model.gguf',
    headerBytes: headerEnd(fields),
    fields,
  };
}

function splitGguf(): Specimen {
  const { first, second } = splitParts();
  return {
    name: 'split GGUF',
    files: { [partName(1)]: first.bytes, [partName(2)]: second.bytes },
    target: partName(2),
    headerBytes: headerEnd(second.fields),
    fields: second.fields,
  };
}

/** Opened by the second part, while the first one lies. */
function laterPart(): Specimen {
  const { first, second } = splitParts();
  return {
    name: 'later part of a split GGUF',
    files: { [partName(1)]: first.bytes, [partName(2)]: second.bytes },
    entry: partName(2),
    target: partName(1),
    headerBytes: headerEnd(first.fields),
    fields: first.fields,
  };
}

function partName(part: number): string {
  return `model-0000${part}-of-00002.gguf`;
}

function splitParts() {
  const { metadata, tensors } = ggufContent(3);
  const part = (index: number, own: GgufContent['tensors']) =>
    writeGguf({
      metadata: {
        ...(index === 0 ? metadata : {}),
        'split.no': { type: 'u32', value: index },
        'split.count': { type: 'u32', value: 2 },
        'split.tensors.count': { type: 'u32', value: tensors.length },
      },
      tensors: own,
    });
  return { first: part(0, tensors.slice(0, 4)), second: part(1, tensors.slice(4)) };
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
  const matrices = shapes.filter(([, , rows]) => rows > 1);
  const norms = shapes.filter(([, , rows]) => rows === 1);
  const kindOf = (index: number) => mlxKinds[index % mlxKinds.length] as (typeof mlxKinds)[number];
  const tensors = matrices.flatMap(([, name, rows], index) => {
    const { bits, group, mode } = kindOf(index);
    const [weight, scales] = [u32Tensor(`${name}.weight`, rows, bits), [rows, HIDDEN / group] as const];
    return mode === undefined
      ? [weight, floatTensor(`${name}.scales`, scales), floatTensor(`${name}.biases`, scales)]
      : [
          weight,
          { name: `${name}.scales`, dtype: 'U8', shape: scales, bytes: bytes((rows * HIDDEN) / group) },
        ];
  });
  tensors.push(...norms.map(([, name]) => floatTensor(`${name}.weight`, [HIDDEN])));
  const overrides = matrices.flatMap(([, name], index) => {
    const { bits, group: group_size, mode } = kindOf(index);
    return bits === 4 && mode === undefined ? [] : [[name, { group_size, bits, ...(mode && { mode }) }]];
  });
  const quantization = { group_size: 32, bits: 4, ...Object.fromEntries(overrides) };
  const files = {
    'config.json': json({ ...config, quantization }),
    'model.safetensors': writeSafetensors(tensors),
  };
  return folder('MLX folder', files, 'model.safetensors');
}

function u32Tensor(name: string, rows: number, bits: number): SafetensorsWriterTensor {
  const shape = [rows, (HIDDEN * bits) / 32];
  return { name, dtype: 'U32', shape, bytes: bytes((rows * HIDDEN * bits) / 8) };
}

/** Every matrix as two tensors of bytes. */
function mxfp4(): Specimen {
  const tensors = shapes.flatMap(([, name, rows]) => {
    if (rows === 1) return [floatTensor(`${name}.weight`, [HIDDEN])];
    const groups = HIDDEN / 32;
    return [
      {
        name: `${name}.weight_blocks`,
        dtype: 'U8',
        shape: [rows, groups, 16],
        bytes: bytes(rows * groups * 16),
      },
      { name: `${name}.weight_scales`, dtype: 'U8', shape: [rows, groups], bytes: bytes(rows * groups) },
    ];
  });
  return quantizedFolder('MXFP4 folder', tensors, { quant_method: 'mxfp4' });
}

function fp8(): Specimen {
  const scaled = f8Tensors('weight_scale_inv', (rows) => [Math.ceil(rows / 48), HIDDEN / 32]);
  return quantizedFolder('FP8 folder', scaled, { quant_method: 'fp8', weight_block_size: [48, 32] });
}

function compressed(): Specimen {
  const scaled = f8Tensors('weight_scale', (rows, index) => (index % 2 === 0 ? [rows, 1] : [1]));
  const weights = { num_bits: 8, type: 'float', strategy: 'channel', block_structure: null };
  return quantizedFolder('compressed-tensors folder', scaled, {
    quant_method: 'compressed-tensors',
    config_groups: { group_0: { weights } },
  });
}

/** Every other matrix with act-order. */
function gptq(): Specimen {
  const tensors = integerMatrices((name, rows, index) => [
    { name: `${name}.qweight`, dtype: 'I32', shape: [HIDDEN / 8, rows], bytes: bytes((HIDDEN / 2) * rows) },
    { name: `${name}.qzeros`, dtype: 'I32', shape: [2, rows / 8], bytes: bytes(rows) },
    floatTensor(`${name}.scales`, [2, rows]),
    {
      name: `${name}.g_idx`,
      dtype: 'I32',
      shape: [HIDDEN],
      bytes: wordBytes(HIDDEN, (input) => (index % 2 === 0 ? input >> 5 : input & 1)),
    },
  ]);
  const settings = { quant_method: 'gptq', bits: 4, group_size: 32, desc_act: true, sym: false };
  return quantizedFolder('GPTQ folder', tensors, { ...settings, checkpoint_format: 'gptq' });
}

function awq(): Specimen {
  const tensors = integerMatrices((name, rows) => [
    { name: `${name}.qweight`, dtype: 'I32', shape: [HIDDEN, rows / 8], bytes: bytes((HIDDEN / 2) * rows) },
    { name: `${name}.qzeros`, dtype: 'I32', shape: [2, rows / 8], bytes: bytes(rows) },
    floatTensor(`${name}.scales`, [2, rows]),
  ]);
  const settings = { quant_method: 'awq', bits: 4, group_size: 32, version: 'gemm', zero_point: true };
  return quantizedFolder('AWQ folder', tensors, settings);
}

/** Of compressed-tensors: matrices of whole numbers, packed or not, and of floats of four bits in turn. */
function packed(): Specimen {
  const tensors = integerMatrices((name, rows, index) => {
    const matrix = (part: string, dtype: string, shape: readonly number[], valueBytes: number) => ({
      name: `${name}.${part}`,
      dtype,
      shape,
      bytes: bytes(shape.reduce((product, size) => product * size, valueBytes)),
    });
    switch (index % 3) {
      case 0:
        return [matrix('weight', 'I8', [rows, HIDDEN], 1), floatTensor(`${name}.weight_scale`, [rows, 1])];
      case 1:
        return [
          matrix('weight_packed', 'U8', [rows, HIDDEN / 2], 1),
          matrix('weight_scale', 'F8_E4M3', [rows, HIDDEN / 16], 1),
          floatTensor(`${name}.weight_global_scale`, [1], 0.5),
        ];
      default:
        return [
          matrix('weight_packed', 'I32', [rows, HIDDEN / 8], 4),
          matrix('weight_zero_point', 'I32', [rows / 8, 2], 4),
          floatTensor(`${name}.weight_scale`, [rows, 2]),
          {
            name: `${name}.weight_shape`,
            dtype: 'I64',
            shape: [2],
            bytes: new Uint8Array(BigInt64Array.of(BigInt(rows), BigInt(HIDDEN)).buffer),
          },
        ];
    }
  });
  const group = (weights: object) => ({ targets: ['Linear'], weights });
  return quantizedFolder('compressed-tensors folder of three formats', tensors, {
    quant_method: 'compressed-tensors',
    format: 'mixed-precision',
    config_groups: {
      group_0: group({ num_bits: 4, type: 'int', symmetric: false, strategy: 'group', group_size: 32 }),
      group_1: group({ num_bits: 8, type: 'int', symmetric: true, strategy: 'channel' }),
      group_2: group({
        num_bits: 4,
        type: 'float',
        symmetric: true,
        strategy: 'tensor_group',
        group_size: 16,
      }),
    },
  });
}

/** Every other matrix with factors that are quantized themselves. */
function bitsAndBytes(): Specimen {
  const tensors = integerMatrices((name, rows, index) => {
    const nested = index % 2 === 0;
    const sizes = { quant_type: 'nf4', blocksize: 64, dtype: 'bfloat16', shape: [rows, HIDDEN] };
    const state = json(nested ? { ...sizes, nested_blocksize: 256, nested_offset: 0.5 } : sizes);
    const part = `${name}.weight`;
    return [
      { name: part, dtype: 'U8', shape: [(rows * HIDDEN) / 2, 1], bytes: bytes((rows * HIDDEN) / 2) },
      floatTensor(`${part}.quant_map`, [16]),
      ...(nested
        ? [
            { name: `${part}.absmax`, dtype: 'U8', shape: [rows], bytes: bytes(rows) },
            floatTensor(`${part}.nested_absmax`, [1]),
            floatTensor(`${part}.nested_quant_map`, [256]),
          ]
        : [floatTensor(`${part}.absmax`, [rows])]),
      { name: `${part}.quant_state.bitsandbytes__nf4`, dtype: 'U8', shape: [state.length], bytes: state },
    ];
  });
  const settings = { quant_method: 'bitsandbytes', load_in_4bit: true, bnb_4bit_quant_type: 'nf4' };
  return quantizedFolder('bitsandbytes folder', tensors, settings);
}

/** Norms and the embedding stay floats. */
function integerMatrices(
  parts: (name: string, rows: number, index: number) => readonly SafetensorsWriterTensor[],
): readonly SafetensorsWriterTensor[] {
  return shapes.flatMap(([, name, rows], index) => {
    if (rows === 1) return [floatTensor(`${name}.weight`, [HIDDEN])];
    return rows === VOCABULARY ? [floatTensor(`${name}.weight`, [rows, HIDDEN])] : parts(name, rows, index);
  });
}

function wordBytes(count: number, value: (index: number) => number): Uint8Array {
  return new Uint8Array(Int32Array.from({ length: count }, (_, index) => value(index)).buffer);
}

function f8Tensors(
  suffix: string,
  scaleShape: (rows: number, index: number) => readonly number[],
): readonly SafetensorsWriterTensor[] {
  return shapes.flatMap(([, name, rows], index) => {
    if (rows === 1) return [floatTensor(`${name}.weight`, [HIDDEN])];
    return [
      { name: `${name}.weight`, dtype: 'F8_E4M3', shape: [rows, HIDDEN], bytes: bytes(rows * HIDDEN) },
      floatTensor(`${name}.${suffix}`, scaleShape(rows, index)),
    ];
  });
}

function quantizedFolder(
  name: string,
  tensors: readonly SafetensorsWriterTensor[],
  settings: object,
): Specimen {
  const files = {
    'config.json': json({ ...config, quantization_config: settings }),
    'model.safetensors': writeSafetensors(tensors),
  };
  return folder(name, files, 'model.safetensors');
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

function floatTensor(name: string, shape: readonly number[], added = 0): SafetensorsWriterTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return { name, dtype: 'F32', shape, bytes: float32Bytes(values(count).map((value) => value + added)) };
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
