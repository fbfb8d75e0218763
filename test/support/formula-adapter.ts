// Adapters whose weights follow a formula, with logits computed by PEFT in float32: tools/formula-models made them. They are
// written as files, in the form of PEFT's folders and in that of GGUF files.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { withAdapters } from '../../src/model/adapters.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { openAdapter } from '../../src/weights/adapter-files.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { ggufName, interleave } from './formula-gguf.ts';
import {
  asFolder,
  type FormulaModel,
  type FormulaTensor,
  formulaModel,
  formulaValues,
} from './formula-model.ts';
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

const storedOfMlx: { readonly adapters: readonly FormulaAdapter[] } = JSON.parse(
  readFileSync(new URL('../golden/formula-adapters-mlx.json', import.meta.url), 'utf8'),
);

/** The same of mlx-lm. */
export const mlxFormulaAdapters = storedOfMlx.adapters;

export function adapterTensors({ model, tensors }: FormulaAdapter): FormulaTensor[] {
  return Object.entries(tensors).map(([name, shape]) => ({
    name,
    shape,
    values: formulaValues(name.includes('.base_layer.') ? ownName(model, name) : name, shape),
  }));
}

/** Of the model's own matrix, which PEFT saves with adapters of embeddings and heads. */
function ownName(model: string, name: string): string {
  const own = name.replace('base_model.model.', '').replace('.base_layer.', '.');
  return own in formulaModel(model).tensors ? own : 'model.embed_tokens.weight';
}

/** A folder of an adapter; gives its path. */
export function writeAdapterFolder(
  folder: string,
  file: 'adapter_model.safetensors' | 'adapters.safetensors',
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
  writeFileSync(join(folder, file), writeSafetensors(entries));
  return folder;
}

/** As PEFT saves it. */
export const writePeftFolder = (
  folder: string,
  config: Readonly<Record<string, unknown>>,
  tensors: readonly FormulaTensor[],
): string => writeAdapterFolder(folder, 'adapter_model.safetensors', config, tensors);

/** As mlx-lm saves it. */
export const writeMlxAdapter = (folder: string, adapter: FormulaAdapter): string =>
  writeAdapterFolder(folder, 'adapters.safetensors', adapter.config, adapterTensors(adapter));

/** As mlx-lm would save it, had it been trained there as DoRA; gives the folder's path. */
export function writeMlxFolder(folder: string, tensors: readonly FormulaTensor[]): string {
  mkdirSync(folder, { recursive: true });
  const config = { fine_tune_type: 'dora', lora_parameters: { rank: 4, scale: 2, dropout: 0 } };
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
  const entries = tensors.flatMap(({ name, shape: [rows = 0, columns = 0], values }) => {
    const [, module, half] = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    const turned = Array.from(
      values,
      (_, at) => values[(at % rows) * columns + Math.floor(at / rows)] as number,
    );
    const one = (ending: string, shape: readonly number[], floats: readonly number[]) => ({
      name: `${module}.${ending}`,
      dtype: 'F32',
      shape,
      bytes: float32Bytes(floats),
    });
    const matrix = one(half === 'A' ? 'lora_a' : 'lora_b', [columns, rows], turned);
    return half === 'A' ? [matrix] : [matrix, one('m', [rows], Array(rows).fill(1))];
  });
  writeFileSync(join(folder, 'adapters.safetensors'), writeSafetensors(entries));
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

/** Logits of several sequences of one step, each with an adapter or none. */
export async function stepLogits(
  create: CreateBackend,
  opened: OpenedModel,
  paths: readonly string[],
  sequences: readonly AdaptedTokens[],
): Promise<Float32Array[]> {
  const [logits] = await stepsLogits(create, opened, paths, [sequences]);
  return logits as Float32Array[];
}

interface AdaptedTokens {
  readonly tokens: readonly number[];
  readonly adapter?: number;
}

/** Logits of each sequence of each step, one step after the other on one backend. */
export async function stepsLogits(
  create: CreateBackend,
  opened: OpenedModel,
  paths: readonly string[],
  steps: readonly (readonly AdaptedTokens[])[],
): Promise<Float32Array[][]> {
  const adapters = paths.map((path, index) => ({ name: `${index}`, files: openAdapter(path) }));
  const { spec, weights } = withAdapters(buildSpec(opened), opened, adapters);
  const blockCount = 3 * Math.max(...steps.map(({ length }) => length));
  const backend = await create(spec, weights, { blockCount });
  weights.close();
  const all: Float32Array[][] = [];
  for (const sequences of steps) {
    const batch = sequences.map(
      ({ tokens, adapter }, index): BatchSequence => ({
        tokens,
        start: 0,
        blocks: [2, 0, 1].map((block) => 3 * index + block),
        wantLogits: 'all',
        adapter,
      }),
    );
    const { logits } = await backend.step(buildBatch(batch));
    let row = 0;
    all.push(
      sequences.map(({ tokens }) => {
        const first = row;
        row += tokens.length;
        return logits.slice(first * spec.vocabSize, row * spec.vocabSize);
      }),
    );
  }
  backend.close();
  return all;
}

export function largestDifference(adapter: FormulaAdapter, computed: Float32Array): number {
  const { rows } = formulaModel(adapter.model);
  const [first = []] = adapter.logits;
  const known = adapter.logits.flat();
  const own = rows.flatMap((row) => [...computed.subarray(row * first.length, (row + 1) * first.length)]);
  const difference = Math.max(...known.map((value, at) => Math.abs(value - (own[at] ?? Number.NaN))));
  return difference / Math.max(1, ...known.map(Math.abs));
}

const negated = (tensors: readonly FormulaTensor[]): FormulaTensor[] =>
  tensors.map((tensor) =>
    tensor.name.includes('lora_B') ? { ...tensor, values: tensor.values.map((value) => -value) } : tensor,
  );

/** Rows of different adapters in one step have the bits that each has alone. */
export async function haveOwnBits(create: CreateBackend, folder: string): Promise<void> {
  const [adapter] = formulaAdapters as [FormulaAdapter];
  const model = formulaModel(adapter.model);
  const tensors = adapterTensors(adapter);
  const one = writePeftFolder(join(folder, 'one'), adapter.config, tensors);
  const other = writePeftFolder(join(folder, 'other'), adapter.config, negated(tensors));
  const scaled = writeMlxFolder(join(folder, 'scaled'), tensors);
  await haveBitsOfTheirOwn(create, model, [one, other, scaled]);
}

/** The same of three adapters. */
export async function haveBitsOfTheirOwn(
  create: CreateBackend,
  model: FormulaModel,
  paths: readonly string[],
): Promise<void> {
  const sequences = [
    { tokens: model.ids.slice(0, 40), adapter: 1 },
    { tokens: model.ids.slice(5, 8) },
    { tokens: model.ids.slice(3, 50), adapter: 0 },
    { tokens: model.ids.slice(5, 8), adapter: 1 },
    { tokens: model.ids.slice(9, 10), adapter: 0 },
    { tokens: model.ids.slice(5, 8), adapter: 2 },
  ];
  const together = await stepLogits(create, asFolder(model), paths, sequences);
  for (const [index, sequence] of sequences.entries()) {
    const [alone] = await stepLogits(create, asFolder(model), paths, [sequence]);
    expect(together[index]).toEqual(alone);
  }
  const [without] = await stepLogits(create, asFolder(model), [], [{ tokens: model.ids.slice(5, 8) }]);
  expect(together[1]).toEqual(without);
  expect(together[3]).not.toEqual(without);
  expect(together[5]).not.toEqual(together[3]);
}
