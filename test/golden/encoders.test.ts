// Encoders from files to final states, against results of HF transformers; also in the form GGUF files have.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { encoderGoldens } from '../contract/golden-contract.ts';
import { type EncoderForm, encoderAsGguf } from '../support/encoder-gguf.ts';
import { encoderModel, encoderModels, stateDifference } from '../support/encoder-models.ts';
import { asFolder } from '../support/formula-model.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';

const TOLERANCE = 2e-5;

describe.each(Object.entries(encoderModels))('the encoder %s', (_, model) => {
  it.each([
    ['as people write its configuration', model.config],
    ['as transformers saves it', model.saved],
  ])('gives the states of HF transformers, %s', async (_, config) => {
    const difference = await stateDifference(createReferenceBackend, model, asFolder(model, config));
    expect(difference).toBeLessThan(TOLERANCE);
  });

  it('embeds texts and cannot continue them', () => {
    expect(buildSpec(asFolder(model))).toMatchObject({ headless: true });
  });
});

describe.skipIf(!hasAddon)('encoders on the cpu backend (skipped where the addon is not built)', () =>
  encoderGoldens(createOnCpu),
);

describe('the same encoder as a GGUF file', () => {
  it.each<readonly [name: string, form: EncoderForm]>([
    ['bert', { architecture: 'bert' }],
    ['nomic_bert', { architecture: 'nomic-bert', keys: { 'rope.freq_base': 1000 } }],
    [
      'modernbert',
      {
        architecture: 'modern-bert',
        keys: {
          'attention.sliding_window': 16,
          'attention.sliding_window_pattern': 3,
          'rope.freq_base': 160_000,
          'rope.freq_base_swa': 10_000,
        },
      },
    ],
    [
      'gemma3',
      {
        architecture: 'gemma-embedding',
        raisesNorms: true,
        keys: {
          'attention.head_count_kv': 2,
          'attention.key_length': 16,
          'attention.value_length': 16,
          'attention.sliding_window': 16,
          'attention.sliding_window_pattern': Uint8Array.of(1, 0, 1),
          'rope.freq_base': 1_000_000,
        },
      },
    ],
  ])('gives the states of HF transformers: %s', async (name, form) => {
    const model = encoderModel(name);
    const opened = encoderAsGguf(model, form);
    expect(await stateDifference(createReferenceBackend, model, opened)).toBeLessThan(TOLERANCE);
    expect(buildSpec(opened)).toMatchObject({ headless: true });
  });
});

it.each([
  ['bert', 'bert.', 'bert.embeddings.word_embeddings.weight'],
  ['modernbert', 'model.', 'model.embeddings.tok_embeddings.weight'],
])('%s that was saved within another model has names behind %s', (name, prefix, embedding) => {
  const model = encoderModel(name);
  const tensors = Object.fromEntries(
    Object.entries(model.tensors).map(([name, shape]) => [prefix + name, shape]),
  );
  expect(buildSpec(asFolder({ ...model, tensors })).embedding.tensor).toBe(embedding);
});

it('rotary bases of ModernBERT are those that its file names', () => {
  const model = encoderModel('modernbert');
  const config = { ...model.config, global_rope_theta: 5000, local_rope_theta: 700 };
  const { ropes } = buildSpec(asFolder(model, config));
  const seconds = [5000, 700].map((base) => base ** (-2 / 12));
  for (const [at, second] of seconds.entries()) {
    expect(ropes[at]?.inverseFrequencies[1]).toBeCloseTo(second, 10);
  }
});

describe("the fields of Nomic's folders", () => {
  const model = encoderModel('nomic_bert');
  const { vocab_size, hidden_size, intermediate_size, num_attention_heads, num_hidden_layers } = model.config;
  const hub = {
    model_type: 'nomic_bert',
    vocab_size,
    n_embd: hidden_size,
    n_inner: intermediate_size,
    n_head: num_attention_heads,
    n_layer: num_hidden_layers,
    n_positions: 8192,
    max_trained_positions: 80,
    layer_norm_epsilon: 1e-12,
    activation_function: 'swiglu',
    rotary_emb_base: 1000,
    rotary_emb_fraction: 1,
    rotary_emb_interleaved: false,
    qkv_proj_bias: false,
    mlp_fc1_bias: false,
    prenorm: false,
    type_vocab_size: 2,
  };

  it('are known, and texts end where training did', async () => {
    const opened = asFolder(model, hub);
    expect(buildSpec(opened).contextLength).toBe(80);
    expect(await stateDifference(createReferenceBackend, model, opened)).toBeLessThan(TOLERANCE);
  });

  it.each([
    ['n_embd', 'many', 'n_embd: must be a whole number'],
    ['activation_function', 'gelu', 'activation_function: "gelu" is not supported'],
    ['moe_every_n_layers', 2, 'moe_every_n_layers: 2 is not supported'],
    ['prenorm', true, 'prenorm: true is not supported'],
  ])('are refused by the name that the file has: %s', (field, value, message) => {
    expect(() => buildSpec(asFolder(model, { ...hub, [field]: value }))).toThrow(message);
  });
});
