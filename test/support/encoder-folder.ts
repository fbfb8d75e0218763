// A small BERT of formula weights with a WordPiece vocabulary: as a folder that sentence-transformers writes, or as a GGUF file.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { completed, wordPiece } from '../fixtures/tokenizers/tokenizer-fixtures.ts';
import { classifierModels } from './classifier-models.ts';
import { ggufName } from './encoder-gguf.ts';
import { encoderModel } from './encoder-models.ts';
import { formulaTensors, formulaValues } from './formula-model.ts';
import { writeGguf } from './gguf-writer.ts';
import { writeSafetensors } from './safetensors-writer.ts';

interface EncoderFolderOptions {
  /** What `1_Pooling/config.json` switches on. Default the mean. */
  readonly pooling?: 'pooling_mode_mean_tokens' | 'pooling_mode_cls_token';
  /** Two linear maps follow. */
  readonly dense?: boolean;
}

const WORDS = 'embeddings.word_embeddings.weight';

export function writeEncoderFolder(
  folder: string,
  { pooling = 'pooling_mode_mean_tokens', dense = false }: EncoderFolderOptions = {},
): void {
  const model = encoderModel('bert');
  const vocabSize = wordPiece.vocab.length;
  const size = Number(model.config.hidden_size);
  const steps = ['Transformer', 'Pooling', ...(dense ? ['Dense', 'Dense'] : []), 'Normalize'];
  const modules = steps.map((kind, idx) => ({
    idx,
    path: idx === 0 ? '' : `${idx}_${kind}`,
    type: `sentence_transformers.models.${kind}`,
  }));
  const { tokenizer } = wordPiece.styles['without case'] as { tokenizer: { model: object } };
  const vocab = Object.fromEntries(wordPiece.vocab.map((token, id) => [token, id]));
  const write = (path: string, content: object) => writeFileSync(join(folder, path), JSON.stringify(content));
  mkdirSync(join(folder, '1_Pooling'), { recursive: true });
  write('config.json', { ...model.config, architectures: ['BertModel'], vocab_size: vocabSize });
  write('tokenizer.json', completed(tokenizer as never, { vocab }));
  write('modules.json', modules);
  write('1_Pooling/config.json', { [pooling]: true });
  const tensors = { ...model.tensors, [WORDS]: [vocabSize, size] };
  writeTensors(join(folder, 'model.safetensors'), formulaTensors({ tensors }));
  if (!dense) return;
  for (const [step, shape] of [
    [2, [2 * size, size]],
    [3, [size, 2 * size]],
  ] as const) {
    const own = join(folder, `${step}_Dense`);
    mkdirSync(own);
    writeFileSync(
      join(own, 'config.json'),
      JSON.stringify({ activation_function: 'torch.nn.modules.linear.Identity', bias: false }),
    );
    const name = 'linear.weight';
    writeTensors(join(own, 'model.safetensors'), [
      { name, shape, values: formulaValues(own.slice(-7), shape) },
    ]);
  }
}

/** As in BERT's own files. */
const pair = [
  { SpecialToken: { id: '[CLS]', type_id: 0 } },
  { Sequence: { id: 'A', type_id: 0 } },
  { SpecialToken: { id: '[SEP]', type_id: 0 } },
  { Sequence: { id: 'B', type_id: 1 } },
  { SpecialToken: { id: '[SEP]', type_id: 1 } },
];

/** A cross-encoder of one label, or a classifier of three, as transformers saves them. */
export function writeClassifierFolder(folder: string, name: 'bert' | 'bert of three labels'): void {
  const model = classifierModels[name] as (typeof classifierModels)[string];
  const { tokenizer } = wordPiece.styles['without case'] as { tokenizer: { model: object } };
  const vocab = Object.fromEntries(wordPiece.vocab.map((token, id) => [token, id]));
  const write = (path: string, content: object) => writeFileSync(join(folder, path), JSON.stringify(content));
  mkdirSync(folder, { recursive: true });
  const vocabSize = wordPiece.vocab.length;
  write('config.json', { ...model.config, vocab_size: vocabSize, pad_token_id: vocab['[PAD]'] });
  const whole = completed(tokenizer as never, { vocab }) as { post_processor: object };
  write('tokenizer.json', { ...whole, post_processor: { ...whole.post_processor, pair } });
  const inputs = ['input_ids', 'token_type_ids', 'attention_mask'];
  const marks = { cls_token: '[CLS]', sep_token: '[SEP]', pad_token: '[PAD]', unk_token: '[UNK]' };
  write('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    model_max_length: 80,
    model_input_names: inputs,
    ...marks,
  });
  const tensors = { ...model.tensors, [`bert.${WORDS}`]: [vocabSize, Number(model.config.hidden_size)] };
  writeTensors(join(folder, 'model.safetensors'), formulaTensors({ tensors }));
}

/** The same model as the folder's, pooled by its first token. */
export function writeEncoderGguf(path: string): void {
  const model = encoderModel('bert');
  const { vocab } = wordPiece;
  const number = (value: unknown) => ({ type: 'u32', value: Number(value) }) as const;
  const isControl = (token: string) => /^\[[A-Z]+\]$/.test(token);
  // Without letters that have case, the vocabulary is one without case.
  const lower = (token: string) => (isControl(token) ? token : token.replace(/[A-Z]/g, 'ˣ'));
  const marked = (token: string) => {
    if (isControl(token)) return token;
    return token.startsWith('##') ? token.slice(2) : `▁${lower(token)}`;
  };
  const tensors = { ...model.tensors, [WORDS]: [vocab.length, Number(model.config.hidden_size)] };
  const { bytes } = writeGguf({
    metadata: {
      'general.architecture': { type: 'string', value: 'bert' },
      'bert.block_count': number(model.config.num_hidden_layers),
      'bert.context_length': number(model.config.max_position_embeddings),
      'bert.embedding_length': number(model.config.hidden_size),
      'bert.feed_forward_length': number(model.config.intermediate_size),
      'bert.attention.head_count': number(model.config.num_attention_heads),
      'bert.attention.layer_norm_epsilon': { type: 'f32', value: 1e-12 },
      'bert.attention.causal': { type: 'bool', value: false },
      'bert.pooling_type': number(2),
      'tokenizer.ggml.model': { type: 'string', value: 'bert' },
      'tokenizer.ggml.tokens': { type: 'strings', value: vocab.map(marked) },
      'tokenizer.ggml.token_type': { type: 'i32s', value: vocab.map((token) => (isControl(token) ? 3 : 1)) },
    },
    tensors: formulaTensors({ tensors }).map(({ name, shape, values }) => ({
      name: ggufName(name),
      type: 'F32',
      shape,
      bytes: new Uint8Array(values.buffer),
    })),
  });
  writeFileSync(path, bytes);
}

function writeTensors(path: string, tensors: ReturnType<typeof formulaTensors>): void {
  const written = tensors.map(({ name, shape, values }) => ({
    name,
    dtype: 'F32',
    shape,
    bytes: new Uint8Array(values.buffer),
  }));
  writeFileSync(path, writeSafetensors(written));
}
