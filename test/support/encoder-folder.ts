// A folder with a small BERT of formula weights and a WordPiece vocabulary, as sentence-transformers writes them.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { completed, wordPiece } from '../fixtures/tokenizers/tokenizer-fixtures.ts';
import { encoderModel } from './encoder-models.ts';
import { formulaTensors, formulaValues } from './formula-model.ts';
import { writeSafetensors } from './safetensors-writer.ts';

export interface EncoderFolderOptions {
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

function writeTensors(path: string, tensors: ReturnType<typeof formulaTensors>): void {
  const written = tensors.map(({ name, shape, values }) => ({
    name,
    dtype: 'F32',
    shape,
    bytes: new Uint8Array(values.buffer),
  }));
  writeFileSync(path, writeSafetensors(written));
}
