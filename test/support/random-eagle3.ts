// Folders of a random model, three layers of which some remember, and of a random EAGLE-3 head for it.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Eagle3Paths, writeEagle3Head } from './eagle3-folders.ts';
import { seededRandom } from './random-blocks.ts';
import { writeFolderWithMtp } from './random-folder.ts';

const HIDDEN = 64;
const HEAD = 32;
/** Tokens that a head which is never right knows. */
const KNOWN = 1000;

const layer = {
  'midlayer.input_layernorm.weight': [HIDDEN],
  'midlayer.hidden_norm.weight': [HIDDEN],
  'midlayer.post_attention_layernorm.weight': [HIDDEN],
  'midlayer.self_attn.q_proj.weight': [4 * HEAD, 2 * HIDDEN],
  'midlayer.self_attn.k_proj.weight': [2 * HEAD, 2 * HIDDEN],
  'midlayer.self_attn.v_proj.weight': [2 * HEAD, 2 * HIDDEN],
  'midlayer.self_attn.o_proj.weight': [HIDDEN, 4 * HEAD],
  'midlayer.mlp.gate_proj.weight': [HEAD, HIDDEN],
  'midlayer.mlp.up_proj.weight': [HEAD, HIDDEN],
  'midlayer.mlp.down_proj.weight': [HIDDEN, HEAD],
  'norm.weight': [HIDDEN],
  'fc.weight': [HIDDEN, 3 * HIDDEN],
};

/**
 * Makes both folders within one that exists. The head is never right, or always: then all tokens are alike to the model, and the head
 * hands the state on.
 */
export function writeRandomEagle3(
  folder: string,
  head: 'never right' | 'always right',
  vocabSize: number,
): Eagle3Paths {
  const paths = { model: join(folder, 'model'), head: join(folder, 'head') };
  mkdirSync(paths.model);
  writeFolderWithMtp(paths.model, head, vocabSize);
  const isRight = head === 'always right';
  if (isRight) makeAlike(join(paths.model, 'model.safetensors'));
  const shapes = isRight ? layer : { ...layer, 'lm_head.weight': [KNOWN, HIDDEN] };
  const random = seededRandom(4);
  const tensors = Object.entries(shapes).map(([name, shape]) => {
    const values = Float32Array.from({ length: shape.reduce((product, size) => product * size, 1) }, () =>
      shape.length === 1 ? 1 : (2 * random() - 1) / 2,
    );
    if (isRight && name === 'fc.weight') handOn(values);
    if (isRight && /(o|down)_proj\.weight$/.test(name)) values.fill(0);
    return { name, shape, values };
  });
  const config = {
    architectures: ['LlamaForCausalLMEagle3'],
    model_type: 'llama',
    hidden_size: HIDDEN,
    intermediate_size: HEAD,
    num_hidden_layers: 1,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: HEAD,
    vocab_size: vocabSize,
    rms_norm_eps: 1e-6,
    eagle_aux_hidden_state_layer_ids: [0, 1, 2],
  };
  const offsets = Array.from({ length: KNOWN }, (_, row) => 3 * row);
  writeEagle3Head(paths.head, config, tensors, isRight ? null : offsets);
  return paths;
}

/** The first of what is read. */
function handOn(values: Float32Array): void {
  values.fill(0);
  for (let i = 0; i < HIDDEN; i++) values[i * 3 * HIDDEN + i] = 1;
}

/** One embedding for all tokens, of values that a bfloat16 holds. */
function makeAlike(file: string): void {
  const bytes = readFileSync(file);
  const dataAt = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, dataAt));
  const [start, end] = header['model.embed_tokens.weight'].data_offsets;
  for (let at = start; at < end; at += 4) bytes.writeFloatLE(((at - start) % 16) / 8 - 0.75, dataAt + at);
  writeFileSync(file, bytes);
}
