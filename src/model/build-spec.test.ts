import { describe, expect, it } from 'vitest';
import { type Fields, faultOf, specOf } from '../../test/support/built-spec.ts';
import { asFolder, formulaModel, formulaTensors } from '../../test/support/formula-model.ts';
import { floatTensor, type MemoryTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { buildSpec } from './build-spec.ts';
import { attentionsOf, textOnlyNotice } from './spec-walk.ts';

const LLAMA = 'llama with biases';
const llamaFault = (change: Fields) => faultOf(() => specOf(LLAMA, change));

describe('buildSpec on a bad configuration', () => {
  it('names an unknown architecture and lists the known ones', () => {
    const fault = llamaFault({ model_type: 'mamba' });
    expect(fault).toMatchObject({ file: 'made/config.json', field: 'model_type' });
    expect(fault.problem).toContain('"mamba" is not supported');
    expect(fault.remedy).toContain('llama, mistral, ministral3, mixtral');
  });

  it.each([
    'hidden_size',
    'num_hidden_layers',
    'num_attention_heads',
    'intermediate_size',
    'vocab_size',
    'num_key_value_heads',
    'max_position_embeddings',
  ])('refuses absurd values of %s', (field) => {
    for (const value of [0, -4, 1.5, 2 ** 40, '32', [1], true]) {
      expect(llamaFault({ [field]: value })).toMatchObject({ field, file: 'made/config.json' });
    }
  });

  it.each(['hidden_size', 'num_hidden_layers', 'vocab_size'])('asks for %s where it is missing', (field) => {
    expect(llamaFault({ [field]: null })).toMatchObject({ field, problem: 'is missing' });
  });

  it('refuses heads that cannot share key/value heads', () => {
    expect(llamaFault({ num_key_value_heads: 3 })).toMatchObject({ field: 'num_key_value_heads' });
  });

  it('refuses sizes that do not split into heads', () => {
    expect(llamaFault({ hidden_size: 30 })).toMatchObject({ field: 'hidden_size' });
    expect(llamaFault({ head_dim: 7 })).toMatchObject({ field: 'head_dim' });
  });

  it('refuses more layers than the file can hold before making any', () => {
    expect(llamaFault({ num_hidden_layers: 60_000_000 })).toMatchObject({ field: 'num_hidden_layers' });
  });

  it('names the first tensor that is missing', () => {
    const fault = llamaFault({ num_hidden_layers: 3 });
    expect(fault.field).toMatch(/^model\.layers\.2\./);
    expect(fault.problem).toContain('missing');
  });

  it('names a tensor of the wrong shape, with both shapes', () => {
    const fault = llamaFault({ intermediate_size: 64 });
    expect(fault.field).toBe('model.layers.0.mlp.gate_proj.weight');
    expect(fault.problem).toContain('[48, 32]');
    expect(fault.problem).toContain('[64, 32]');
  });

  it('refuses a fused tensor that is too long or too short', () => {
    for (const heads of [1, 4]) {
      const fault = faultOf(() => specOf('phi3', { num_key_value_heads: heads }));
      expect(fault.field).toBe('model.layers.0.self_attn.qkv_proj.weight');
    }
  });

  it('refuses an activation it does not know', () => {
    expect(llamaFault({ hidden_act: 'relu' })).toMatchObject({ field: 'hidden_act' });
  });

  it('refuses layer types it does not know', () => {
    const fault = faultOf(() => specOf('qwen3', { layer_types: ['full_attention', 'linear_attention'] }));
    expect(fault.field).toBe('layer_types');
  });

  it('refuses a head said to be stored that is not', () => {
    const fault = faultOf(() => specOf('llama with a tied head', { tie_word_embeddings: false }));
    expect(fault.field).toBe('lm_head.weight');
  });
});

describe('buildSpec on rotary parameters', () => {
  const scaling = (fields: Fields) => llamaFault({ rope_scaling: fields });

  it('refuses scalings it does not know, dynamic ones among them', () => {
    const fault = scaling({ rope_type: 'dynamic', factor: 2 });
    expect(fault).toMatchObject({ field: 'rope_scaling.rope_type' });
    expect(fault.problem).toContain('"dynamic" is not supported');
    expect(scaling({ type: 'mrope' })).toMatchObject({ field: 'rope_scaling.type' });
  });

  it('names what a scaling lacks', () => {
    expect(scaling({ type: 'linear' })).toMatchObject({ field: 'factor', problem: 'is missing' });
    expect(scaling({ type: 'linear', factor: -1 })).toMatchObject({ field: 'rope_scaling.factor' });
    expect(scaling({ type: 'longrope', short_factor: [1], long_factor: [1, 2] })).toMatchObject({
      field: 'rope_scaling.short_factor',
    });
  });

  it('reads old and new spellings alike', () => {
    const old = specOf('llama with llama3 rope');
    const { rope_scaling, rope_theta } = formulaModel('llama with llama3 rope').config;
    const rope_parameters = { ...(rope_scaling as Fields), rope_theta };
    const renewed = specOf('llama with llama3 rope', {
      rope_parameters,
      rope_scaling: null,
      rope_theta: null,
    });
    expect(renewed.ropes).toEqual(old.ropes);
  });

  it('chooses longrope factors by the context that is served', () => {
    const opened = asFolder(formulaModel('phi3 with long longrope'));
    const long = buildSpec(opened);
    const short = buildSpec(opened, { contextLength: 32 });
    expect([long.contextLength, short.contextLength]).toEqual([128, 32]);
    expect(long.ropes[0]?.inverseFrequencies[0]).toBeCloseTo(1 / 1.5);
    expect(short.ropes[0]?.inverseFrequencies[0]).toBe(1);
    expect(short.ropes[0]?.magnitude).toBe(long.ropes[0]?.magnitude);
  });

  it('extends the context where yarn stretches it beyond the stated length', () => {
    expect(specOf('llama with yarn rope', { max_position_embeddings: 32 }).contextLength).toBe(128);
  });
});

describe('buildSpec on features', () => {
  it('takes the head from the embedding where the file stores none and is silent', () => {
    const spec = specOf('llama with a tied head', { tie_word_embeddings: undefined });
    expect(spec.head.weight.tensor).toBe(spec.embedding.tensor);
  });

  it('gives windows to the layers that have one', () => {
    expect(attentionsOf(specOf('qwen2 with upper windows')).map(({ window }) => window)).toEqual([
      undefined,
      7,
      7,
    ]);
    expect(
      attentionsOf(specOf('qwen2 with upper windows', { use_sliding_window: false })).map(
        ({ window }) => window,
      ),
    ).toEqual([undefined, undefined, undefined]);
    const gemma = specOf('gemma3 with old rope fields');
    expect(attentionsOf(gemma).map(({ rope, window }) => [rope, window])).toEqual([
      [1, 11],
      [0, undefined],
      [1, 11],
      [0, undefined],
    ]);
  });

  it('finds a body that was saved alone, and knows that it has no head', () => {
    const model = formulaModel('llama with a tied head');
    const tensors = formulaTensors(model).map(({ name, shape, values }) =>
      floatTensor(name.replace(/^model\./, ''), shape, values),
    );
    const specWith = (tied: boolean) =>
      buildSpec({
        ...asFolder(model, { ...model.config, tie_word_embeddings: tied }),
        weights: memoryWeights(tensors),
      } as OpenedModel);
    expect(specWith(false)).toMatchObject({ headless: true, embedding: { tensor: 'embed_tokens.weight' } });
    expect(specWith(true).headless).toBeUndefined();
  });

  it.each([
    ['gemma3', 'gemma3 with a logit cap'],
    ['gemma3n', 'gemma3n'],
    ['gemma4', 'gemma4 with experts beside'],
    ['llama4', 'llama4'],
    ['mistral3', 'ministral3 with growing queries'],
    ['qwen3_vl', 'qwen3'],
  ])('finds the text model inside a multimodal checkpoint, and says so: %s', (wrapper, name) => {
    const model = formulaModel(name);
    const plain = buildSpec(asFolder(model));
    expect(textOnlyNotice(plain)).toBeUndefined();
    for (const [body, head] of [
      ['language_model.model.', 'language_model.lm_head.'],
      ['model.language_model.', 'lm_head.'],
    ] as const) {
      const inside = (tensor: string) => tensor.replace(/^model\./, body).replace(/^lm_head\./, head);
      const tensors = formulaTensors(model).map(
        (tensor): MemoryTensor => floatTensor(inside(tensor.name), tensor.shape, tensor.values),
      );
      const opened: OpenedModel = {
        ...asFolder(model, { model_type: wrapper, text_config: model.config }),
        weights: memoryWeights(tensors),
      } as OpenedModel;
      const renamed = JSON.parse(JSON.stringify(plain), (_, value) =>
        typeof value === 'string' ? inside(value) : value,
      );
      expect(buildSpec(opened)).toEqual({ ...renamed, textOnly: true });
      expect(textOnlyNotice(buildSpec(opened))).toContain('only the text model runs');
    }
  });

  it('takes a head as tied that only the wrapper says to be so', () => {
    const model = formulaModel('gemma3 with a logit cap');
    const text_config = { ...model.config, tie_word_embeddings: false };
    const config = { model_type: 'gemma3', text_config, tie_word_embeddings: true };
    const spec = buildSpec(asFolder(model, config));
    expect(spec.head.weight.tensor).toBe(spec.embedding.tensor);
  });
});

describe('buildSpec on a bad GGUF file', () => {
  const gguf = (metadata: Readonly<Record<string, string | number>>): OpenedModel => ({
    format: 'gguf',
    path: 'made.gguf',
    version: 3,
    metadata: new Map(Object.entries(metadata)),
    weights: memoryWeights([floatTensor('token_embd.weight', [4, 8], new Float32Array(32))]),
  });
  const llama = {
    'general.architecture': 'llama',
    'llama.block_count': 1,
    'llama.context_length': 64,
    'llama.embedding_length': 8,
    'llama.feed_forward_length': 8,
    'llama.attention.head_count': 2,
    'llama.attention.layer_norm_rms_epsilon': 1e-5,
  };
  const fault = (change: Readonly<Record<string, string | number>>) =>
    faultOf(() => buildSpec(gguf({ ...llama, ...change })));

  it('spells fields as the file does', () => {
    expect(fault({ 'general.architecture': 'mamba' })).toMatchObject({ field: 'general.architecture' });
    expect(fault({ 'llama.block_count': 0 })).toMatchObject({
      field: 'llama.block_count',
      file: 'made.gguf',
    });
    expect(fault({ 'llama.attention.head_count_kv': 7 })).toMatchObject({
      field: 'llama.attention.head_count_kv',
    });
    expect(fault({ 'llama.rope.scaling.type': 'dynamic' })).toMatchObject({
      field: 'llama.rope.scaling.type',
    });
    expect(fault({ 'llama.rope.freq_base': -1 })).toMatchObject({ field: 'llama.rope.freq_base' });
  });

  it('refuses what it cannot run', () => {
    expect(fault({ 'llama.expert_count': 8 })).toMatchObject({ field: 'llama.expert_used_count' });
    expect(fault({ 'llama.attention.key_length': 4, 'llama.attention.value_length': 8 })).toMatchObject({
      field: 'llama.attention.value_length',
    });
    expect(fault({ 'llama.rope.dimension_count': 2 })).toMatchObject({ field: 'llama.rope.dimension_count' });
    expect(fault({ 'llama.rope.dimension_count': 6 })).toMatchObject({ field: 'llama.rope.dimension_count' });
  });

  it('names a missing tensor', () => {
    expect(fault({})).toMatchObject({ field: 'blk.0.attn_q.weight' });
  });
});
