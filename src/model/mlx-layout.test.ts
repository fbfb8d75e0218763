import { describe, expect, it } from 'vitest';
import { faultOf } from '../../test/support/built-spec.ts';
import { formulaValues } from '../../test/support/formula-model.ts';
import { floatTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import { joinedWeights } from '../weights/weight-source.ts';
import { buildSpec } from './build-spec.ts';
import type { NormSpec } from './spec.ts';
import { readNorm } from './weight-reader.ts';

const config = {
  model_type: 'qwen3_5_text',
  hidden_size: 8,
  intermediate_size: 8,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 8,
  linear_num_key_heads: 1,
  linear_num_value_heads: 2,
  linear_key_head_dim: 4,
  linear_value_head_dim: 4,
  linear_conv_kernel_dim: 3,
  vocab_size: 16,
  max_position_embeddings: 64,
  tie_word_embeddings: true,
  layer_types: ['linear_attention', 'full_attention'],
};

const feeding = {
  'input_layernorm.weight': [8],
  'post_attention_layernorm.weight': [8],
  'mlp.gate_proj.weight': [8, 8],
  'mlp.up_proj.weight': [8, 8],
  'mlp.down_proj.weight': [8, 8],
};

const CONVOLUTION = 'model.layers.0.linear_attn.conv1d.weight';

const shapes: Readonly<Record<string, readonly number[]>> = {
  'model.embed_tokens.weight': [16, 8],
  'model.norm.weight': [8],
  ...inLayer(0, {
    ...feeding,
    'linear_attn.in_proj_qkv.weight': [16, 8],
    'linear_attn.in_proj_z.weight': [8, 8],
    'linear_attn.in_proj_a.weight': [2, 8],
    'linear_attn.in_proj_b.weight': [2, 8],
    'linear_attn.conv1d.weight': [16, 1, 3],
    'linear_attn.dt_bias': [2],
    'linear_attn.A_log': [2],
    'linear_attn.norm.weight': [4],
    'linear_attn.out_proj.weight': [8, 8],
  }),
  ...inLayer(1, {
    ...feeding,
    'self_attn.q_proj.weight': [32, 8],
    'self_attn.k_proj.weight': [8, 8],
    'self_attn.v_proj.weight': [8, 8],
    'self_attn.o_proj.weight': [8, 16],
    'self_attn.q_norm.weight': [8],
    'self_attn.k_norm.weight': [8],
  }),
};

function inLayer(layer: number, tensors: Readonly<Record<string, readonly number[]>>) {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, shape]) => [`model.layers.${layer}.${name}`, shape]),
  );
}

interface Folder {
  /** Of the convolution. */
  readonly shape?: readonly number[];
  readonly addsOne?: boolean;
  readonly headerFormats?: readonly string[];
  readonly format?: SafetensorsModel['format'];
}

function folder({ shape = [16, 1, 3], addsOne = false, format = 'safetensors', headerFormats }: Folder) {
  const tensors = Object.entries(shapes).map(([name, usual]) => {
    const isShifted = addsOne && /norm\.weight$/.test(name) && !name.includes('linear_attn');
    const values = formulaValues(name, usual).map((value) => (isShifted ? value + 1 : value));
    return floatTensor(name, name === CONVOLUTION ? shape : usual, values);
  });
  return {
    format,
    path: 'made/model.safetensors',
    directory: 'made',
    config,
    weights: memoryWeights(tensors),
    ...(headerFormats === undefined ? {} : { headerFormats }),
  } satisfies OpenedModel;
}

/** Every norm of the model, as a backend applies it. */
function normsOf(opened: OpenedModel, mtp = false): readonly (readonly number[])[] {
  const norms: NormSpec[] = [];
  JSON.stringify(buildSpec(opened, { mtp }), (_, value) => {
    if (value?.kind === 'rms' && typeof value.weight === 'string') norms.push(value);
    return value;
  });
  return norms.map((norm) =>
    Array.from(readNorm(opened.weights, norm).weight ?? [], (value) => Number(value.toFixed(5))),
  );
}

describe('a folder of Qwen 3.5', () => {
  it('has the same norms as on the hub once mlx-lm has added 1 to them', () => {
    const hub = normsOf(folder({ headerFormats: ['pt'] }));
    expect(hub).toHaveLength(8);
    const mlx = { shape: [16, 3, 1], addsOne: true };
    for (const told of [{ headerFormats: ['mlx'] }, { headerFormats: ['pt'], format: 'mlx' }, {}] as const)
      expect(normsOf(folder({ ...mlx, ...told }))).toEqual(hub);
  });

  it.each<readonly [string, Folder, RegExp]>([
    [
      'its header says mlx and its convolutions are those of the hub',
      { headerFormats: ['mlx'] },
      /\[16, 1, 3\] of the hub's layout in a file that calls itself MLX's/,
    ],
    [
      'it is quantized by MLX and its convolutions are those of the hub',
      { format: 'mlx' },
      /\[16, 1, 3\] of the hub's layout/,
    ],
    [
      'its header says pt and its convolutions are those of MLX',
      { shape: [16, 3, 1], headerFormats: ['pt'] },
      /\[16, 3, 1\] of MLX's layout in a file that calls itself the hub's/,
    ],
    ['its convolutions are those of neither', { shape: [16, 3] }, /\[16, 3\], which tells neither/],
  ])('is refused rather than read wrongly where %s', (_, changed, problem) => {
    const { field, problem: told } = faultOf(() => buildSpec(folder(changed)));
    expect(CONVOLUTION.endsWith(field as string)).toBe(true);
    expect(told).toMatch(problem);
  });

  it('has an MTP head whose norms are those of the hub, to whichever of them 1 was added on conversion', () => {
    const head = {
      'mtp.fc.weight': [8, 16],
      'mtp.pre_fc_norm_embedding.weight': [8],
      'mtp.pre_fc_norm_hidden.weight': [8],
      'mtp.norm.weight': [8],
      ...Object.fromEntries(
        Object.entries(shapes)
          .filter(([name]) => name.startsWith('model.layers.1.'))
          .map(([name, shape]) => [name.replace('model.layers.1.', 'mtp.layers.0.'), shape]),
      ),
    };
    const published = folder({ shape: [16, 3, 1], addsOne: true, headerFormats: ['mlx'] });
    const open = (adds: (name: string) => boolean): OpenedModel => {
      const tensors = Object.entries(head).map(([name, shape]) => {
        // Norms of the formula are around 1, those of the hub around 0.
        const shift = /norm\w*\.weight$/.test(name) && !adds(name) ? -1 : 0;
        return floatTensor(
          name,
          shape,
          formulaValues(name, shape).map((value) => value + shift),
        );
      });
      return { ...published, weights: joinedWeights(published.weights, memoryWeights(tensors)) };
    };
    const all = normsOf(
      open(() => true),
      true,
    );
    expect(all).toHaveLength(8 + 7);
    expect(
      normsOf(
        open(() => false),
        true,
      ),
    ).toEqual(all);
    expect(
      normsOf(
        open((name) => name === 'mtp.norm.weight'),
        true,
      ),
    ).toEqual(all);
  });
});
