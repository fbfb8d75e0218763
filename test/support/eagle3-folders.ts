// Folders of models and of their EAGLE-3 heads, with weights that follow a formula: tools/formula-models/eagle3.py made what is
// known of them.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FormulaTensor, formulaTensors } from './formula-model.ts';
import type { HeadModel } from './head-answers.ts';
import { type SafetensorsWriterTensor, writeSafetensors } from './safetensors-writer.ts';

export interface Eagle3Model extends HeadModel {
  readonly head: Readonly<Record<string, unknown>>;
  readonly headTensors: HeadModel['tensors'];
  /** From the number of each row of the head's output to its token; null: it has all tokens. */
  readonly offsets: readonly number[] | null;
}

export const eagle3Models: Readonly<Record<string, Eagle3Model>> = JSON.parse(
  readFileSync(new URL('../golden/eagle3.json', import.meta.url), 'utf8'),
);

export interface Eagle3Paths {
  readonly model: string;
  readonly head: string;
}

/** Makes both folders within one that exists. */
export function writeEagle3(folder: string, { config, tensors, ...model }: Eagle3Model): Eagle3Paths {
  const paths = { model: join(folder, 'model'), head: join(folder, 'head') };
  writeFolder(paths.model, config, formulaTensors({ tensors }).map(floats));
  writeEagle3Head(paths.head, model.head, formulaTensors({ tensors: model.headTensors }), model.offsets);
  return paths;
}

export function writeEagle3Head(
  folder: string,
  config: object,
  tensors: readonly FormulaTensor[],
  offsets: readonly number[] | null,
): void {
  const own = offsets === null ? [] : [offsetsTensor(offsets)];
  writeFolder(folder, config, [...tensors.map(floats), ...own]);
}

function writeFolder(folder: string, config: object, tensors: readonly SafetensorsWriterTensor[]): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
}

function floats({ name, shape, values }: FormulaTensor): SafetensorsWriterTensor {
  return { name, shape, dtype: 'F32', bytes: new Uint8Array(values.buffer) };
}

function offsetsTensor(offsets: readonly number[]): SafetensorsWriterTensor {
  const values = BigInt64Array.from(offsets.map(BigInt));
  return { name: 'd2t', dtype: 'I64', shape: [offsets.length], bytes: new Uint8Array(values.buffer) };
}
