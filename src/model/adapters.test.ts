// Where an adapter's matrices find their place, and what is said where they do not.

import { describe, expect, it } from 'vitest';
import { asGguf } from '../../test/support/formula-gguf.ts';
import { asFolder, formulaModel } from '../../test/support/formula-model.ts';
import { floatTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import type { AdapterFiles } from '../weights/adapter-files.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { type NamedAdapter, withAdapters } from './adapters.ts';
import { buildSpec } from './build-spec.ts';
import type { ModelSpec } from './spec.ts';
import { adaptableLinears } from './spec-walk.ts';

/** An adapter of rank 2 for one matrix. */
function adapterFor(
  target: string,
  outputs: number,
  inputs: number,
  format: AdapterFiles['format'] = 'safetensors',
) {
  const floats = (count: number) => new Float32Array(count).fill(1);
  const weights = memoryWeights([
    floatTensor('a', [2, inputs], floats(2 * inputs)),
    floatTensor('b', [outputs, 2], floats(2 * outputs)),
  ]);
  const pairs = [{ target, down: 'a', up: 'b', rank: 2, scale: 1 }];
  return { name: 'some', files: { format, path: 'some.safetensors', pairs, weights } };
}

const adapted = (opened: OpenedModel, adapter: NamedAdapter) =>
  withAdapters(buildSpec(opened), opened, [adapter]);

const llama = formulaModel('llama with a tied head');
const query = 'model.layers.1.self_attn.q_proj.weight';
const [rows = 0, columns = 0] = llama.tensors[query] ?? [];

const additionsOf = (spec: ModelSpec) => adaptableLinears(spec).flatMap(({ additions = [] }) => additions);

describe('an adapter', () => {
  it('adds to the matrix that it names, and its tensors join the model’s', () => {
    const { spec, weights } = adapted(asFolder(llama), adapterFor(query, rows, columns));
    expect(spec.adapters).toEqual(['some']);
    expect(additionsOf(spec)).toMatchObject([{ adapter: 0, rank: 2, up: { rows } }]);
    for (const { down, up } of additionsOf(spec)) {
      expect(weights.tensors.get(down.tensor)?.shape).toEqual([2, columns]);
      expect(weights.tensors.get(up.tensor)?.shape).toEqual([rows, 2]);
    }
  });

  it('may leave out what stands before the layers', () => {
    const plain = query.replace('model.', '');
    expect(additionsOf(adapted(asFolder(llama), adapterFor(plain, rows, columns)).spec)).toHaveLength(1);
  });

  it('adds to each of several maps that share a matrix', () => {
    const phi3 = formulaModel('phi3');
    const name = 'model.layers.0.self_attn.qkv_proj.weight';
    const [outputs = 0, inputs = 0] = phi3.tensors[name] ?? [];
    const { spec } = adapted(asFolder(phi3), adapterFor(name, outputs, inputs));
    expect(additionsOf(spec)).toHaveLength(3);
    expect(additionsOf(spec).reduce((sum, { up }) => sum + up.rows, 0)).toBe(outputs);
  });

  it('is refused where it was trained for a model of other sizes', () => {
    const refused = /trained for another model/;
    expect(() => adapted(asFolder(llama), adapterFor(query, rows, columns + 1))).toThrow(refused);
    expect(() => adapted(asFolder(llama), adapterFor(query, rows + 2, columns))).toThrow(refused);
  });

  it('is refused where it changes what takes no adapter', () => {
    const refused = /is no matrix of this model that takes adapters/;
    const norm = adapterFor('model.norm.weight', 1, columns);
    expect(() => adapted(asFolder(llama), norm)).toThrow(refused);
    expect(() => adapted(asFolder(llama), adapterFor(query.replace('.1.', '.9.'), rows, columns))).toThrow(
      refused,
    );
  });

  it('adds to a head, also where that is the embedding’s table', () => {
    const head = adapterFor('lm_head.weight', 40, columns);
    expect(adapted(asFolder(llama), head).spec.head.additions).toHaveLength(1);
    expect(() => adapted(asFolder(llama), adapterFor('lm_head.weight', 48, columns))).toThrow(
      /another model/,
    );
  });

  it('adds to embeddings, and to the head that is tied to them where it was trained so', () => {
    const weights = memoryWeights([
      floatTensor('a', [2, 40], new Float32Array(80)),
      floatTensor('b', [columns, 2], new Float32Array(2 * columns)),
    ]);
    const table = (tied: boolean, byToken = false) => {
      const embedding = { byToken, tied };
      const pair = { target: 'model.embed_tokens.weight', down: 'a', up: 'b', rank: 2, scale: 1, embedding };
      const files: AdapterFiles = { format: 'safetensors', path: 'a', pairs: [pair], weights };
      return { name: 'some', files };
    };
    const { spec } = adapted(asFolder(llama), table(false));
    expect(spec.embeddingAdditions).toMatchObject([
      { table: { rows: 40 }, up: { weight: { rows: columns } } },
    ]);
    expect(spec.head.additions).toBeUndefined();
    expect(adapted(asFolder(llama), table(true)).spec.head.additions).toHaveLength(1);
    expect(() => adapted(asFolder(llama), table(false, true))).toThrow(/needs \[40, 2\]/);
  });

  it('adds to the expert that it names, and is refused where it stacks experts that the model does not', () => {
    const mixture = formulaModel('qwen3 with experts');
    const expert = 'model.layers.0.mlp.experts.2.up_proj.weight';
    const [outputs = 0, inputs = 0] = mixture.tensors[expert] ?? [];
    const { spec } = adapted(asFolder(mixture), adapterFor(expert, outputs, inputs));
    const [, feeding] = spec.layers[0]?.branches ?? [];
    const body = feeding?.parts[0]?.body;
    const experts = body?.kind === 'moe' ? body.experts : [];
    expect(experts.map(({ up }) => up.additions?.length)).toEqual([undefined, undefined, 1, undefined]);
    const stacked = adapterFor('model.layers.0.mlp.switch_mlp.up_proj.weight', outputs, inputs);
    expect(() => adapted(asFolder(mixture), stacked)).toThrow(/where the model needs \[4, 2, 32\]/);
  });

  it('of another format finds its place by the name that it has there', () => {
    const gguf = asGguf(llama, { architecture: 'llama', pairs: true });
    expect(additionsOf(adapted(gguf, adapterFor(query, rows, columns)).spec)).toHaveLength(1);
    const target = 'blk.1.attn_q.weight';
    const { spec } = adapted(asFolder(llama), adapterFor(target, rows, columns, 'gguf'));
    const [{ up } = {}] = additionsOf(spec);
    expect(up?.interleaved).toEqual({ heads: 4, rotated: 8 });
    expect(() => adapted(asFolder(llama), adapterFor(target, rows, columns))).toThrow(/is no matrix of this/);
  });
});
