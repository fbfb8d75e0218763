// Adapters whose weights follow a formula, with logits computed by PEFT in float32: tools/formula-models made them. They are
// written as files, in the form of PEFT's folders and in that of GGUF files.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ggufName, interleave } from './formula-gguf.ts';
import { type FormulaTensor, formulaValues } from './formula-model.ts';
import { writeGguf } from './gguf-writer.ts';
import { float32Bytes, writeSafetensors } from './safetensors-writer.ts';

export interface FormulaAdapter {
  /** Its name among the formula models. */
  readonly model: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  /** Of the rows of its model that are known. */
  readonly logits: readonly (readonly number[])[];
}

const stored: { readonly adapters: readonly FormulaAdapter[] } = JSON.parse(
  readFileSync(new URL('../golden/formula-adapters.json', import.meta.url), 'utf8'),
);

export const formulaAdapters = stored.adapters;

export function adapterTensors({ tensors }: Pick<FormulaAdapter, 'tensors'>): FormulaTensor[] {
  return Object.entries(tensors).map(([name, shape]) => ({
    name,
    shape,
    values: formulaValues(name, shape),
  }));
}

/** As PEFT saves it; gives the folder's path. */
export function writePeftFolder(
  folder: string,
  config: Readonly<Record<string, unknown>>,
  tensors: readonly FormulaTensor[],
): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
  const entries = tensors.map(({ name, shape, values }) => ({
    name,
    dtype: 'F32',
    shape,
    bytes: float32Bytes([...values]),
  }));
  writeFileSync(join(folder, 'adapter_model.safetensors'), writeSafetensors(entries));
  return folder;
}

/** As it is converted for a model whose queries and keys are stored for rotary pairs; gives the file's path. */
export function writeGgufAdapter(
  path: string,
  tensors: readonly FormulaTensor[],
  heads: { readonly q: number; readonly k: number },
  alpha: number,
): string {
  const converted = tensors.map((tensor) => {
    const [, module = '', half = ''] =
      /^base_model\.model\.(.*)\.lora_([AB])\.weight$/.exec(tensor.name) ?? [];
    const turned = /\.([qk])_proj$/.exec(module)?.[1] as keyof typeof heads | undefined;
    const rows = half === 'B' && turned !== undefined ? interleave(tensor, heads[turned]) : tensor;
    const name = `${ggufName(`${module}.weight`)}.lora_${half.toLowerCase()}`;
    return { name, type: 'F32' as const, shape: tensor.shape, bytes: float32Bytes([...rows.values]) };
  });
  const metadata = {
    'general.type': { type: 'string', value: 'adapter' },
    'general.architecture': { type: 'string', value: 'llama' },
    'adapter.type': { type: 'string', value: 'lora' },
    'adapter.lora.alpha': { type: 'f32', value: alpha },
  } as const;
  writeFileSync(path, writeGguf({ metadata, tensors: converted }).bytes);
  return path;
}
