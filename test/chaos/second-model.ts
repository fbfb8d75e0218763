// The second model of a run: a tiny llama of random weights with a vocabulary of bytes. It answers nonsense, but always
// the same nonsense, and never what the first model would say. Its texts are full of broken UTF-8, unless bytes beyond
// ASCII are spelled out.

import { writeFileSync } from 'node:fs';
import { byteCharacters } from '../../src/text/bpe.ts';
import { type GgufWriterTensor, writeGguf } from '../support/gguf-writer.ts';
import { Chance } from './chance.ts';

const HIDDEN = 64;
const FFN = 128;
const LAYERS = 2;
const HEADS = 2;
const KV_HEADS = 1;
const HEAD_SIZE = 32;
export const SECOND_CONTEXT = 2048;

const specials = ['<|begin|>', '<|end|>'];
/** Two hexadecimal digits in place of each byte that is no text by itself: no two answers read the same. */
const spelledOut = byteCharacters.map((character, byte) =>
  byte < 0x80 ? character : `<${byte.toString(16)}>`,
);
const NORMAL = 1;
const CONTROL = 3;

const chatTemplate =
  "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

const u32 = (value: number) => ({ type: 'u32', value }) as const;
const f32 = (value: number) => ({ type: 'f32', value }) as const;
const text = (value: string) => ({ type: 'string', value }) as const;

export interface SecondModelOptions {
  readonly spellsOut?: boolean;
  readonly layers?: number;
}

export function writeSecondModel(
  path: string,
  { spellsOut = false, layers = LAYERS }: SecondModelOptions = {},
): void {
  const tokens = [...(spellsOut ? spelledOut : byteCharacters), ...specials];
  const metadata = metadataOf(tokens, layers);
  writeFileSync(path, writeGguf({ metadata, tensors: tensorsOf(new Chance(20), layers) }).bytes);
}

const VOCABULARY = byteCharacters.length + specials.length;

const metadataOf = (tokens: readonly string[], layers: number) =>
  ({
    'general.architecture': text('llama'),
    'general.name': text('random weights'),
    'llama.block_count': u32(layers),
    'llama.context_length': u32(SECOND_CONTEXT),
    'llama.embedding_length': u32(HIDDEN),
    'llama.feed_forward_length': u32(FFN),
    'llama.attention.head_count': u32(HEADS),
    'llama.attention.head_count_kv': u32(KV_HEADS),
    'llama.attention.layer_norm_rms_epsilon': f32(1e-5),
    'llama.rope.freq_base': f32(10_000),
    'llama.rope.dimension_count': u32(HEAD_SIZE),
    'llama.vocab_size': u32(tokens.length),
    'tokenizer.ggml.model': text('gpt2'),
    'tokenizer.ggml.pre': text('gpt-2'),
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
    'tokenizer.ggml.token_type': {
      type: 'i32s',
      value: tokens.map((token) => (specials.includes(token) ? CONTROL : NORMAL)),
    },
    'tokenizer.ggml.merges': { type: 'strings', value: [] },
    'tokenizer.ggml.bos_token_id': u32(tokens.length - 2),
    'tokenizer.ggml.eos_token_id': u32(tokens.length - 1),
    'tokenizer.ggml.add_bos_token': { type: 'bool', value: false },
    'tokenizer.chat_template': text(chatTemplate),
  }) as const;

function tensorsOf(chance: Chance, layers: number): GgufWriterTensor[] {
  const tensor = (name: string, shape: readonly number[], value: () => number): GgufWriterTensor => {
    const values = Float32Array.from({ length: shape.reduce((product, size) => product * size, 1) }, value);
    return { name, type: 'F32', shape, bytes: new Uint8Array(values.buffer) };
  };
  /** Three times the size that keeps a product as large as its input, so that some tokens stand out. */
  const matrix = (name: string, rows: number, columns: number) =>
    tensor(name, [rows, columns], () => (3 * (chance.below(2001) - 1000)) / 1000 / Math.sqrt(columns));
  const ones = (name: string) => tensor(name, [HIDDEN], () => 1);
  const layerTensors = Array.from({ length: layers }, (_, layer) => [
    ones(`blk.${layer}.attn_norm.weight`),
    matrix(`blk.${layer}.attn_q.weight`, HEADS * HEAD_SIZE, HIDDEN),
    matrix(`blk.${layer}.attn_k.weight`, KV_HEADS * HEAD_SIZE, HIDDEN),
    matrix(`blk.${layer}.attn_v.weight`, KV_HEADS * HEAD_SIZE, HIDDEN),
    matrix(`blk.${layer}.attn_output.weight`, HIDDEN, HEADS * HEAD_SIZE),
    ones(`blk.${layer}.ffn_norm.weight`),
    matrix(`blk.${layer}.ffn_gate.weight`, FFN, HIDDEN),
    matrix(`blk.${layer}.ffn_up.weight`, FFN, HIDDEN),
    matrix(`blk.${layer}.ffn_down.weight`, HIDDEN, FFN),
  ]);
  return [
    matrix('token_embd.weight', VOCABULARY, HIDDEN),
    ...layerTensors.flat(),
    ones('output_norm.weight'),
    matrix('output.weight', VOCABULARY, HIDDEN),
  ];
}
