import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { floatTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import { float32Bytes, writeSafetensors } from '../../test/support/safetensors-writer.ts';
import { tinyModel } from '../../test/support/tiny-model.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { applyDense, readDenseLayers } from './dense-layers.ts';
import { modelPooling } from './pooling.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-dense-'));
afterAll(() => rmSync(root, { recursive: true }));

const SIZE = 64;
const { spec } = tinyModel({ hiddenSize: SIZE, bidirectional: true });

interface Dense {
  readonly rows: number;
  readonly columns: number;
  readonly activation?: string;
  readonly bias?: boolean;
}

const values = (count: number) => Array.from({ length: count }, (_, i) => Math.sin(i + 1) / 8);
let folders = 0;

/** A folder as sentence-transformers writes it. */
function folder(...layers: readonly Dense[]): OpenedModel {
  const directory = join(root, String(folders++));
  const steps = ['Transformer', 'Pooling', ...layers.map(() => 'Dense'), 'Normalize'];
  const modules = steps.map((kind, idx) => ({
    path: idx === 0 ? '' : `${idx}_${kind}`,
    type: `sentence_transformers.models.${kind}`,
  }));
  mkdirSync(join(directory, '1_Pooling'), { recursive: true });
  writeFileSync(join(directory, '1_Pooling', 'config.json'), '{"pooling_mode_mean_tokens": true}');
  writeFileSync(join(directory, 'modules.json'), JSON.stringify(modules));
  for (const [
    at,
    { rows, columns, bias, activation = 'torch.nn.modules.linear.Identity' },
  ] of layers.entries()) {
    const own = join(directory, `${at + 2}_Dense`);
    mkdirSync(own);
    writeFileSync(join(own, 'config.json'), JSON.stringify({ activation_function: activation }));
    const tensor = (name: string, shape: readonly number[]) => ({
      name,
      dtype: 'F32',
      shape,
      bytes: float32Bytes(values(shape.reduce((product, size) => product * size, 1))),
    });
    const tensors = [
      tensor('linear.weight', [rows, columns]),
      ...(bias ? [tensor('linear.bias', [rows])] : []),
    ];
    writeFileSync(join(own, 'model.safetensors'), writeSafetensors(tensors));
  }
  const weights = memoryWeights([]);
  return { format: 'safetensors', path: directory, directory, config: {}, weights };
}

function mapped(input: readonly number[], { rows, columns, bias, activation = '' }: Dense): number[] {
  const weight = values(rows * columns);
  return Array.from({ length: rows }, (_, row) => {
    const product = input.reduce((sum, value, i) => sum + value * (weight[row * columns + i] as number), 0);
    const sum = product + (bias ? (values(rows)[row] as number) : 0);
    return activation.endsWith('Tanh') ? Math.tanh(sum) : sum;
  });
}

describe('maps of a pooled vector', () => {
  const layers = [
    { rows: 96, columns: SIZE, bias: true, activation: 'torch.nn.modules.activation.Tanh' },
    { rows: SIZE, columns: 96 },
  ];

  it('are applied one after the other, as their folders say', () => {
    const opened = folder(...layers);
    expect(modelPooling(opened, spec)).toEqual({ possible: true, pooling: 'mean', declared: true });
    const vector = values(SIZE).toReversed();
    const expected = layers.reduce(mapped, vector);
    const found = applyDense(readDenseLayers(opened), Float32Array.from(vector));
    expect(found.length).toBe(SIZE);
    for (const [at, value] of found.entries()) expect(value).toBeCloseTo(expected[at] as number, 5);
  });

  it('lie beside the layers of a GGUF file', () => {
    const matrix = (name: string, rows: number, columns: number) =>
      floatTensor(name, [rows, columns], Float32Array.from(values(rows * columns)));
    const weights = memoryWeights([matrix('dense_2.weight', 96, SIZE), matrix('dense_3.weight', SIZE, 96)]);
    const metadata = new Map([['general.architecture', 'gemma-embedding']]);
    const opened: OpenedModel = { format: 'gguf', path: 'm.gguf', version: 3, metadata, weights };
    expect(readDenseLayers(opened).map(({ rows, columns }) => [rows, columns])).toEqual([
      [96, SIZE],
      [SIZE, 96],
    ]);
    expect(modelPooling(opened, spec)).toMatchObject({ possible: true });
  });

  it('leave vectors of the size of states, or there are none', () => {
    const pooling = modelPooling(folder({ rows: 32, columns: SIZE }), spec);
    expect(pooling).toMatchObject({ possible: false, problem: expect.stringContaining('64 to 32') });
  });

  it.each([
    ['activation_function: "ReLU"', () => folder({ rows: SIZE, columns: SIZE, activation: 'torch.nn.ReLU' })],
    [
      'linear.weight: the file is missing',
      () => {
        const opened = folder({ rows: SIZE, columns: SIZE });
        rmSync(join(opened.path, '2_Dense', 'model.safetensors'));
        return opened;
      },
    ],
  ])('are refused in one line: %s', (message, made) => {
    expect(() => modelPooling(made(), spec)).toThrow(message);
  });
});
