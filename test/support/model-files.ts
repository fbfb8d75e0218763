// Small sound model files on disk, for tests of what finds, lists and fetches models.

import { formulaModel, formulaTensors } from './formula-model.ts';
import { writeGguf } from './gguf-writer.ts';
import { float32Bytes, writeSafetensors } from './safetensors-writer.ts';

const folderModel = formulaModel('llama with biases');

export const safetensorsConfig = Buffer.from(JSON.stringify(folderModel.config));

export const safetensorsWeights = Buffer.from(
  writeSafetensors(
    formulaTensors(folderModel).map(({ name, shape, values }) => ({
      name,
      dtype: 'F32',
      shape: [...shape],
      bytes: float32Bytes([...values]),
    })),
  ),
);

const HIDDEN = 32;
const u32 = (value: number) => ({ type: 'u32', value }) as const;
const metadata = {
  'general.architecture': { type: 'string', value: 'llama' },
  'llama.embedding_length': u32(HIDDEN),
  'llama.feed_forward_length': u32(HIDDEN),
  'llama.block_count': u32(1),
  'llama.attention.head_count': u32(2),
  'llama.context_length': u32(64),
  'llama.attention.layer_norm_rms_epsilon': { type: 'f32', value: 1e-5 },
} as const;

function zeros(name: string, ...shape: readonly number[]) {
  const bytes = Buffer.alloc(4 * shape.reduce((product, size) => product * size, 1));
  return { name, type: 'F32', shape, bytes } as const;
}

const tensors = [
  zeros('token_embd.weight', 8, HIDDEN),
  zeros('output_norm.weight', HIDDEN),
  zeros('blk.0.attn_norm.weight', HIDDEN),
  zeros('blk.0.ffn_norm.weight', HIDDEN),
  ...['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'].map((part) =>
    zeros(`blk.0.${part}.weight`, HIDDEN, HIDDEN),
  ),
];

/** A llama of one layer, without a vocabulary. */
export const ggufModel = writeGguf({ metadata, tensors }).bytes;

/** The same in two parts. */
export const splitGgufModel = [tensors.slice(0, 3), tensors.slice(3)].map(
  (some, part) =>
    writeGguf({
      metadata: {
        ...(part === 0 ? metadata : {}),
        'split.no': { type: 'u16', value: part },
        'split.count': { type: 'u16', value: 2 },
        'split.tensors.count': { type: 'i32', value: tensors.length },
      },
      tensors: some,
    }).bytes,
);
