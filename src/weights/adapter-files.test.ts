// What an adapter on disk must be: every way of being wrong is one clear line.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeGguf } from '../../test/support/gguf-writer.ts';
import { float32Bytes, writeSafetensors } from '../../test/support/safetensors-writer.ts';
import { openAdapter } from './adapter-files.ts';
import { readFloatRows, readFloats } from './weight-source.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-'));
afterAll(() => rmSync(root, { recursive: true }));

const module = 'base_model.model.model.layers.0.self_attn.q_proj';
const sound = { [`${module}.lora_A.weight`]: [2, 6], [`${module}.lora_B.weight`]: [4, 2] };
let folders = 0;

function peft(config: object, shapes: Readonly<Record<string, readonly number[]>> = sound): string {
  const folder = join(root, `${folders++}`);
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'adapter_config.json'),
    JSON.stringify({ peft_type: 'LORA', lora_alpha: 4, ...config }),
  );
  const tensors = Object.entries(shapes).map(([name, shape]) => ({
    name,
    dtype: 'F32',
    shape,
    bytes: float32Bytes(Array(shape.reduce((product, size) => product * size, 1)).fill(1)),
  }));
  writeFileSync(join(folder, 'adapter_model.safetensors'), writeSafetensors(tensors));
  return folder;
}

function pairsOf(path: string) {
  const { pairs, weights } = openAdapter(path);
  weights.close();
  return pairs;
}

describe('a folder of PEFT', () => {
  it('says what it adds to which matrix', () => {
    const pair = { target: 'model.layers.0.self_attn.q_proj.weight', rank: 2, scale: 2 };
    expect(pairsOf(peft({}))).toMatchObject([pair]);
    expect(pairsOf(join(peft({}), 'adapter_model.safetensors'))).toMatchObject([pair]);
  });

  it.each(['', '.default.weight'])('has magnitudes where it was trained as DoRA: %s', (ending) => {
    const magnitude = `${module}.lora_magnitude_vector${ending}`;
    expect(pairsOf(peft({ use_dora: true }, { ...sound, [magnitude]: [4] }))).toMatchObject([{ magnitude }]);
  });

  it('may add to embeddings, with a copy of the model’s own beside it', () => {
    const table = 'base_model.model.model.embed_tokens';
    const shapes = {
      [`${table}.base_layer.weight`]: [6, 4],
      [`${table}.lora_embedding_A`]: [2, 6],
      [`${table}.lora_embedding_B`]: [4, 2],
    };
    expect(pairsOf(peft({}, shapes))).toMatchObject([
      {
        target: 'model.embed_tokens.weight',
        rank: 2,
        embedding: { byToken: false, tied: false },
        base: `${table}.base_layer.weight`,
      },
    ]);
  });

  it('scales by its fields', () => {
    expect(pairsOf(peft({ use_rslora: true }))).toMatchObject([{ scale: 4 / Math.SQRT2 }]);
    expect(pairsOf(peft({ alpha_pattern: { q_proj: 6 } }))).toMatchObject([{ scale: 3 }]);
    expect(pairsOf(peft({ alpha_pattern: { k_proj: 6 } }))).toMatchObject([{ scale: 2 }]);
  });

  it('may have the name of the adapter in that of its tensors', () => {
    const shapes = {
      [`${module}.lora_A.default.weight`]: [2, 6],
      [`${module}.lora_B.default.weight`]: [4, 2],
    };
    expect(pairsOf(peft({}, shapes))).toMatchObject([{ rank: 2 }]);
  });

  it.each<readonly [string, object, Readonly<Record<string, readonly number[]>>, RegExp]>([
    ['another method', { peft_type: 'IA3' }, sound, /peft_type: "IA3" is not LORA/],
    ['DoRA without magnitudes', { use_dora: true }, sound, /lora_A.weight: has no magnitude/],
    [
      'magnitudes without DoRA',
      {},
      { ...sound, [`${module}.lora_magnitude_vector`]: [4] },
      /magnitude_vector: is a magnitude, which LoRA has not/,
    ],
    ['trained biases', { bias: 'all' }, sound, /bias: trained biases/],
    [
      'whole modules',
      { modules_to_save: ['lm_head'] },
      sound,
      /modules_to_save: \["lm_head"\] is not supported.*merge_and_unload/,
    ],
    [
      'a whole tensor',
      {},
      { ...sound, 'base_model.model.model.embed_tokens.weight': [6, 4] },
      /embed_tokens.weight: is a whole tensor of a model.*merge_and_unload/,
    ],
    [
      'DoRA of embeddings',
      { use_dora: true },
      {
        'base_model.model.model.embed_tokens.lora_embedding_A': [2, 6],
        'base_model.model.model.embed_tokens.lora_embedding_B': [4, 2],
        'base_model.model.model.embed_tokens.lora_magnitude_vector': [6],
      },
      /magnitude_vector: is DoRA of embeddings/,
    ],
    ['no scale', { lora_alpha: null }, sound, /lora_alpha: is missing/],
    ['a scale that is no number', { lora_alpha: '4' }, sound, /lora_alpha: must be a positive number/],
    ['a pattern that is none', { alpha_pattern: { '(': 1 } }, sound, /alpha_pattern: .* is not a pattern/],
    [
      'one half alone',
      {},
      { [`${module}.lora_A.weight`]: [2, 6] },
      /lora_A.weight: its other half is missing/,
    ],
    [
      'the other alone',
      {},
      { [`${module}.lora_B.weight`]: [2, 6] },
      /lora_B.weight: its other half is missing/,
    ],
    ['halves of different ranks', {}, { ...sound, [`${module}.lora_B.weight`]: [4, 3] }, /share no rank/],
    ['a vector', {}, { ...sound, [`${module}.lora_A.weight`]: [12] }, /not that of a matrix/],
    [
      'half of what embeddings need',
      {},
      { ...sound, 'base_model.model.model.embed_tokens.lora_embedding_A': [2, 6] },
      /lora_embedding_A: its other half is missing/,
    ],
    [
      'something else',
      {},
      { ...sound, 'base_model.model.prompt_embeddings': [2, 6] },
      /is no part of a plain LoRA/,
    ],
    ['nothing', {}, {}, /tensors: there are none/],
  ])('is refused in one line: %s', (_, config, shapes, message) => {
    const path = peft(config, shapes);
    expect(() => openAdapter(path)).toThrow(message);
    expect(() => openAdapter(path)).toThrow(/^[^\n]+$/);
  });

  it('is refused where its weights are missing or pickled', () => {
    const empty = join(root, 'empty');
    mkdirSync(empty);
    expect(() => openAdapter(empty)).toThrow(
      /holds no adapter_model.safetensors and no adapters.safetensors/,
    );
    writeFileSync(join(empty, 'adapter_model.bin'), '');
    expect(() => openAdapter(empty)).toThrow(/safe_serialization=True/);
    expect(() => openAdapter(join(root, 'nowhere'))).toThrow(/nowhere/);
  });
});

describe('a folder of mlx-lm', () => {
  const query = 'model.layers.0.self_attn.q_proj';
  const plain = { [`${query}.lora_a`]: [6, 2], [`${query}.lora_b`]: [2, 4] };
  const settings = { fine_tune_type: 'lora', lora_parameters: { rank: 2, scale: 20, dropout: 0 } };

  /** Tensors hold 0, 1, 2 … */
  function mlx(config: object, shapes: Readonly<Record<string, readonly number[]>> = plain): string {
    const folder = join(root, `${folders++}`);
    mkdirSync(folder);
    writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
    const tensors = Object.entries(shapes).map(([name, shape]) => {
      const count = shape.reduce((product, size) => product * size, 1);
      return { name, dtype: 'F32', shape, bytes: float32Bytes(Array.from({ length: count }, (_, i) => i)) };
    });
    writeFileSync(join(folder, 'adapters.safetensors'), writeSafetensors(tensors));
    return folder;
  }

  it('says what it adds to which matrix, with its scale as it is and its matrices turned', () => {
    const { pairs, weights } = openAdapter(mlx(settings));
    expect(pairs).toMatchObject([{ target: `${query}.weight`, rank: 2, scale: 20 }]);
    const [{ down, up }] = pairs as readonly [(typeof pairs)[number]];
    expect(weights.tensors.get(down)?.shape).toEqual([2, 6]);
    expect([...readFloats(weights, down)]).toEqual([0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]);
    expect([...readFloatRows(weights, up, 1, 2)]).toEqual([1, 5, 2, 6]);
    weights.close();
    expect(pairsOf(join(mlx(settings), 'adapters.safetensors'))).toMatchObject([{ rank: 2 }]);
  });

  it('stacks experts, and their matrices as they are', () => {
    const up = 'model.layers.0.mlp.switch_mlp.up_proj';
    const { pairs, weights } = openAdapter(
      mlx(settings, { [`${up}.lora_a`]: [3, 2, 6], [`${up}.lora_b`]: [3, 4, 2] }),
    );
    expect(pairs).toMatchObject([{ target: `${up}.weight`, rank: 2 }]);
    expect(weights.tensors.get(`${up}.lora_b`)?.shape).toEqual([3, 4, 2]);
    expect([...readFloatRows(weights, `${up}.lora_b`, 4, 1)]).toEqual([8, 9]);
    weights.close();
  });

  it('has magnitudes where it was trained as DoRA', () => {
    const path = mlx({ ...settings, fine_tune_type: 'dora' }, { ...plain, [`${query}.m`]: [4] });
    expect(pairsOf(path)).toMatchObject([{ magnitude: `${query}.m` }]);
  });

  it.each<readonly [string, object, Readonly<Record<string, readonly number[]>>, RegExp]>([
    ['whole weights', { ...settings, fine_tune_type: 'full' }, plain, /fine_tune_type: "full" is not/],
    ['no scale', { lora_parameters: { rank: 2 } }, plain, /lora_parameters\.scale: is missing/],
    ['a scale that is none', { lora_parameters: { scale: -1 } }, plain, /scale: must be a positive number/],
    ['DoRA without magnitudes', { ...settings, fine_tune_type: 'dora' }, plain, /lora_a: has no magnitude/],
    [
      'magnitudes without DoRA',
      settings,
      { ...plain, [`${query}.m`]: [4] },
      /q_proj\.m: is a magnitude, which LoRA has not/,
    ],
    ['a magnitude alone', settings, { [`${query}.m`]: [4] }, /q_proj\.m: its other half is missing/],
    ['halves of different ranks', settings, { ...plain, [`${query}.lora_b`]: [3, 4] }, /share no rank/],
    [
      'experts that are not as many on both sides',
      settings,
      { 'a.switch_mlp.up_proj.lora_a': [4, 2, 6], 'a.switch_mlp.up_proj.lora_b': [3, 6, 2] },
      /lora_b: does not fit its other half/,
    ],
    ['something else', settings, { ...plain, 'model.norm.weight': [6] }, /norm\.weight: is a whole tensor/],
  ])('is refused in one line: %s', (_, config, shapes, message) => {
    const path = mlx(config, shapes);
    expect(() => openAdapter(path)).toThrow(message);
    expect(() => openAdapter(path)).toThrow(/^[^\n]+$/);
  });
});

describe('a GGUF file', () => {
  const gguf = (metadata: Parameters<typeof writeGguf>[0]['metadata']): string => {
    const path = join(root, `${folders++}.gguf`);
    const tensors = (
      [
        ['blk.0.attn_q.weight.lora_a', [2, 6]],
        ['blk.0.attn_q.weight.lora_b', [4, 2]],
      ] as const
    ).map(([name, shape]) => ({
      name,
      type: 'F32' as const,
      shape,
      bytes: float32Bytes(Array(shape[0] * shape[1]).fill(1)),
    }));
    writeFileSync(path, writeGguf({ metadata, tensors }).bytes);
    return path;
  };
  const lora = {
    'general.type': { type: 'string', value: 'adapter' },
    'adapter.type': { type: 'string', value: 'lora' },
    'adapter.lora.alpha': { type: 'f32', value: 8 },
  } as const;

  it('says what it adds to which matrix', () => {
    expect(pairsOf(gguf(lora))).toMatchObject([{ target: 'blk.0.attn_q.weight', rank: 2, scale: 4 }]);
  });

  it('is refused in one line where it is something else', () => {
    const { 'adapter.lora.alpha': _, ...scaleless } = lora;
    expect(() => openAdapter(gguf({}))).toThrow(/general.type: is missing/);
    expect(() => openAdapter(gguf({ ...lora, 'adapter.type': { type: 'string', value: 'x' } }))).toThrow(
      /adapter.type: is not "lora"/,
    );
    expect(() => openAdapter(gguf(scaleless))).toThrow(/adapter.lora.alpha: is missing/);
  });
});
