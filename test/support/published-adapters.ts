// One change of a formula model in the form of each publisher's adapters, and merged into the model itself.

import { writeFileSync } from 'node:fs';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { writeAdapterFolder, writePeftFolder } from './formula-adapter.ts';
import { ggufName, interleave } from './formula-gguf.ts';
import { type FormulaModel, type FormulaTensor, formulaTensors, formulaValues } from './formula-model.ts';
import { writeGguf } from './gguf-writer.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';
import { float32Bytes } from './safetensors-writer.ts';

/** Of modules by the names of the hub: `scale * up * down` is added to each of their matrices. */
interface ModelChange {
  readonly scale: number;
  readonly rank: number;
  readonly modules: readonly {
    readonly name: string;
    /** `[rank, inputs]` and `[outputs, rank]`. */
    readonly down: FormulaTensor;
    readonly up: FormulaTensor;
  }[];
}

/** Of all modules whose names match, with values that follow a formula. */
export function changeOf(
  { tensors }: Pick<FormulaModel, 'tensors'>,
  pattern: RegExp,
  rank = 3,
  scale = 1.5,
): ModelChange {
  const modules = Object.entries(tensors).flatMap(([tensor, [outputs = 0, inputs = 0]]) => {
    const name = tensor.replace(/\.weight$/, '');
    if (!pattern.test(tensor) || name === tensor) return [];
    const made = (side: string, shape: readonly number[]): FormulaTensor => ({
      name: `${name}.${side}`,
      shape,
      values: formulaValues(`${name}.${side}`, shape),
    });
    return [{ name, down: made('down', [rank, inputs]), up: made('up', [outputs, rank]) }];
  });
  return { scale, rank, modules };
}

/** A folder whose weights are changed; it needs no adapter. */
export function mergedFolder(model: FormulaModel, { scale, rank, modules }: ModelChange): OpenedModel {
  const changes = new Map(modules.map((module) => [`${module.name}.weight`, module]));
  const merged = formulaTensors(model).map(({ name, shape, values }) => {
    const change = changes.get(name);
    if (change === undefined) return floatTensor(name, shape, values);
    const [, columns = 0] = shape;
    const sums = values.map((value, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      let added = 0;
      for (let k = 0; k < rank; k++) {
        added += (change.up.values[row * rank + k] ?? 0) * (change.down.values[k * columns + column] ?? 0);
      }
      return value + scale * added;
    });
    return floatTensor(name, shape, sums);
  });
  return {
    format: 'safetensors',
    path: 'merged/model.safetensors',
    directory: 'merged',
    config: model.config,
    weights: memoryWeights(merged),
  };
}

export function asPeftAdapter(folder: string, { scale, rank, modules }: ModelChange): string {
  const config = { peft_type: 'LORA', r: rank, lora_alpha: scale * rank };
  const tensors = modules.flatMap(({ name, down, up }) => {
    const module = `base_model.model.${name}`;
    return isEmbedding(name)
      ? [
          { ...turned(up), name: `${module}.lora_embedding_A` },
          { ...turned(down), name: `${module}.lora_embedding_B` },
        ]
      : [
          { ...down, name: `${module}.lora_A.weight` },
          { ...up, name: `${module}.lora_B.weight` },
        ];
  });
  return writePeftFolder(folder, config, tensors);
}

const isEmbedding = (name: string): boolean => name.endsWith('embed_tokens');

/** The same as DoRA of PEFT, which scales every output to a length of 0.5. */
export function asDoraAdapter(folder: string, { scale, rank, modules }: ModelChange): string {
  const config = { peft_type: 'LORA', r: rank, lora_alpha: scale * rank, use_dora: true };
  const tensors = modules.flatMap(({ name, down, up }) => {
    const [outputs = 0] = up.shape;
    return [
      { ...down, name: `base_model.model.${name}.lora_A.weight` },
      { ...up, name: `base_model.model.${name}.lora_B.weight` },
      {
        name: `base_model.model.${name}.lora_magnitude_vector`,
        shape: [outputs],
        values: new Float32Array(outputs).fill(0.5),
      },
    ];
  });
  return writePeftFolder(folder, config, tensors);
}

/** Matrices turned; those of experts stacked as they are. */
export function asMlxAdapter(folder: string, { scale, rank, modules }: ModelChange): string {
  const tensors = new Map<string, FormulaTensor>();
  for (const { name, down, up } of modules) {
    if (isEmbedding(name)) {
      tensors.set(`${name}.lora_a`, up).set(`${name}.lora_b`, down);
      continue;
    }
    const [, before, projection = ''] = /^(.+)\.experts\.\d+\.(\w+)$/.exec(name) ?? [];
    const module = `${before}.switch_mlp.${hubProjections[projection] ?? projection}`;
    for (const [side, tensor] of [
      ['lora_a', down],
      ['lora_b', up],
    ] as const) {
      if (before === undefined) tensors.set(`${name}.${side}`, turned(tensor));
      else stack(tensors, `${module}.${side}`, tensor);
    }
  }
  const config = { fine_tune_type: 'lora', num_layers: 2, lora_parameters: { rank, scale, dropout: 0 } };
  const named = [...tensors].map(([name, tensor]) => ({ ...tensor, name }));
  return writeAdapterFolder(folder, 'adapters.safetensors', config, named);
}

/** `heads` where queries and keys are stored for rotary pairs. */
export function asGgufAdapter(
  path: string,
  { scale, rank, modules }: ModelChange,
  heads?: { readonly q: number; readonly k: number },
): string {
  const tensors = new Map<string, FormulaTensor>();
  for (const { name, down, up } of modules) {
    if (isEmbedding(name)) {
      tensors.set('token_embd.weight.lora_a', up).set('token_embd.weight.lora_b', turned(down));
      continue;
    }
    const [, layer, expert = ''] = /^(model\.layers\.\d+)\..+\.experts\.\d+\.(\w+)$/.exec(name) ?? [];
    const projection = (hubProjections[expert] ?? expert).replace('_proj', '');
    const turns = /\.([qk])_proj$/.exec(name)?.[1] as 'q' | 'k' | undefined;
    const rows = heads !== undefined && turns !== undefined ? interleave(up, heads[turns]) : up;
    for (const [side, tensor] of [
      ['lora_a', down],
      ['lora_b', rows],
    ] as const) {
      if (layer === undefined) tensors.set(`${ggufName(`${name}.weight`)}.${side}`, tensor);
      else stack(tensors, `${ggufName(`${layer}.`)}ffn_${projection}_exps.weight.${side}`, tensor);
    }
  }
  const metadata = {
    'general.type': { type: 'string', value: 'adapter' },
    'general.architecture': { type: 'string', value: 'llama' },
    'adapter.type': { type: 'string', value: 'lora' },
    'adapter.lora.alpha': { type: 'f32', value: scale * rank },
  } as const;
  const stored = [...tensors].map(([name, { shape, values }]) => ({
    name,
    type: 'F32' as const,
    shape,
    bytes: float32Bytes([...values]),
  }));
  writeFileSync(path, writeGguf({ metadata, tensors: stored }).bytes);
  return path;
}

const hubProjections: Readonly<Record<string, string>> = { w1: 'gate_proj', w2: 'down_proj', w3: 'up_proj' };

function turned({ name, shape: [rows = 0, columns = 0], values }: FormulaTensor): FormulaTensor {
  const at = (index: number) => (index % rows) * columns + Math.floor(index / rows);
  return { name, shape: [columns, rows], values: values.map((_, index) => values[at(index)] as number) };
}

/** Experts come in their order. */
function stack(into: Map<string, FormulaTensor>, name: string, { shape, values }: FormulaTensor): void {
  const { shape: [count = 0] = [], values: before = [] } = into.get(name) ?? {};
  into.set(name, { name, shape: [count + 1, ...shape], values: Float32Array.of(...before, ...values) });
}
