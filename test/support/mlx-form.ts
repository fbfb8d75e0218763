// Formula models in the layout that mlx-lm converts them to.

import type { OpenedModel } from '../../src/weights/open-model.ts';
import { type FormulaModel, type FormulaTensor, formulaTensors } from './formula-model.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';

/** Rows of values, of matrices that stand one behind the other. */
interface Stack {
  readonly matrices: number;
  readonly rows: number;
  readonly columns: number;
  readonly at: (matrix: number, row: number, column: number) => number;
}

export function asMlxFolder(model: FormulaModel): OpenedModel {
  const tensors = stackExperts(formulaTensors(model)).flatMap((tensor) => convert(model.config, tensor));
  return {
    format: 'safetensors',
    path: 'mlx/model.safetensors',
    directory: 'mlx',
    config: model.config,
    headerFormats: ['mlx'],
    weights: memoryWeights(tensors.map(({ name, shape, values }) => floatTensor(name, shape, values))),
  };
}

const hubProjections: Readonly<Record<string, string>> = { w1: 'gate_proj', w2: 'down_proj', w3: 'up_proj' };

/** Experts that the hub stores one by one, which it does in their order. */
function stackExperts(tensors: readonly FormulaTensor[]): FormulaTensor[] {
  const stacked = new Map<string, FormulaTensor>();
  for (const tensor of tensors) {
    const [, module, projection = ''] = /^(.+)\.experts\.\d+\.(\w+)\.weight$/.exec(tensor.name) ?? [];
    if (module === undefined) {
      stacked.set(tensor.name, tensor);
      continue;
    }
    const name = `${module}.switch_mlp.${hubProjections[projection] ?? projection}.weight`;
    const { shape: [count = 0] = [], values = [] } = stacked.get(name) ?? {};
    stacked.set(name, {
      name,
      shape: [count + 1, ...tensor.shape],
      values: Float32Array.of(...values, ...tensor.values),
    });
  }
  return [...stacked.values()];
}

function convert(config: FormulaModel['config'], tensor: FormulaTensor): FormulaTensor[] {
  const { name } = tensor;
  const module = name.replace(/\.[a-z_]+(\.weight)?$/, '');
  if (name.endsWith('moe_statics.e_score_correction_bias')) return [];
  if (name.endsWith('block_sparse_moe.input_linear.weight'))
    return gatesAndUps(`${module}.switch_mlp`, tensor);
  if (name.endsWith('block_sparse_moe.output_linear.weight'))
    return [{ ...tensor, name: `${module}.switch_mlp.down_proj.weight` }];
  if (config.model_type === 'gemma4_text' && name.endsWith('experts.gate_up_proj'))
    return gatesAndUps(`${module}.switch_glu`, tensor);
  if (config.model_type === 'gemma4_text' && name.endsWith('experts.down_proj'))
    return [{ ...tensor, name: `${module}.switch_glu.down_proj.weight` }];
  if (name.endsWith('experts.gate_up_proj'))
    return gatesAndUps(module, turned(tensor), config.model_type === 'gpt_oss');
  if (name.endsWith('experts.down_proj')) return [{ ...turned(tensor), name: `${name}.weight` }];
  if (name.endsWith('experts.gate_up_proj_bias')) return biases(module, tensor);
  if (name.endsWith('experts.down_proj_bias')) return [{ ...tensor, name: `${module}.down_proj.bias` }];
  const splits = config.model_type !== 'deepseek_v2' && name.endsWith('kv_b_proj.weight');
  return splits ? keysAndValues(config, module, tensor) : [tensor];
}

function gatesAndUps(module: string, { shape, values }: FormulaTensor, alternating = false): FormulaTensor[] {
  const { matrices, rows, columns, at } = stackOf(shape, values);
  const size = rows / 2;
  const half = (projection: string, place: (row: number) => number) =>
    made(`${module}.${projection}.weight`, {
      matrices,
      rows: size,
      columns,
      at: (matrix, row, column) => at(matrix, place(row), column),
    });
  return [
    half('gate_proj', (row) => (alternating ? 2 * row : row)),
    half('up_proj', (row) => (alternating ? 2 * row + 1 : size + row)),
  ];
}

function biases(module: string, { shape: [experts = 0, both = 0], values }: FormulaTensor): FormulaTensor[] {
  return ['gate_proj', 'up_proj'].map((projection, first) => ({
    name: `${module}.${projection}.bias`,
    shape: [experts, both / 2],
    values: values.filter((_, index) => index % 2 === first),
  }));
}

/** Of each head first what makes keys, turned, then what makes values. */
function keysAndValues(
  config: FormulaModel['config'],
  module: string,
  tensor: FormulaTensor,
): FormulaTensor[] {
  const [heads, nope] = [Number(config.num_attention_heads), Number(config.qk_nope_head_dim)];
  const [rows = 0, rank = 0] = tensor.shape;
  const { at } = stackOf([heads, rows / heads, rank], tensor.values);
  return [
    made(`${module}.embed_q.weight`, {
      matrices: heads,
      rows: rank,
      columns: nope,
      at: (head, row, column) => at(head, column, row),
    }),
    made(`${module}.unembed_out.weight`, {
      matrices: heads,
      rows: rows / heads - nope,
      columns: rank,
      at: (head, row, column) => at(head, nope + row, column),
    }),
  ];
}

function turned(tensor: FormulaTensor): FormulaTensor {
  const { matrices, rows, columns, at } = stackOf(tensor.shape, tensor.values);
  return made(tensor.name, {
    matrices,
    rows: columns,
    columns: rows,
    at: (matrix, row, column) => at(matrix, column, row),
  });
}

function stackOf([matrices = 0, rows = 0, columns = 0]: readonly number[], values: Float32Array): Stack {
  const at: Stack['at'] = (matrix, row, column) => values[(matrix * rows + row) * columns + column] as number;
  return { matrices, rows, columns, at };
}

function made(name: string, { matrices, rows, columns, at }: Stack): FormulaTensor {
  const values = Float32Array.from({ length: matrices * rows * columns }, (_, index) => {
    const row = Math.floor(index / columns);
    return at(Math.floor(row / rows), row % rows, index % columns);
  });
  return { name, shape: [matrices, rows, columns], values };
}
