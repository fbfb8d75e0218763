import { describe, expect, it } from 'vitest';
import { type Fields, faultOf, specOf, withTensors } from '../../test/support/built-spec.ts';
import { encoderModel } from '../../test/support/encoder-models.ts';
import { asFolder, formulaModel, formulaTensors } from '../../test/support/formula-model.ts';
import { buildSpec } from './build-spec.ts';

describe('buildSpec on experts', () => {
  const QWEN = 'qwen3 with experts';
  const GROUPS = 'glm4 with experts in groups';
  const fault = (name: string, change: Fields) => faultOf(() => specOf(name, change));

  it('refuses to use more than there are', () => {
    expect(fault(QWEN, { num_experts_per_tok: 5 })).toMatchObject({
      field: 'num_experts_per_tok',
      problem: 'asks for 5 of 4 experts',
    });
  });

  it('refuses more than the router knows before making any', () => {
    for (const count of [3, 6, 2 ** 26]) {
      expect(fault(QWEN, { num_experts: count })).toMatchObject({ field: 'num_experts' });
    }
  });

  it('refuses groups that do not fit', () => {
    expect(fault(GROUPS, { n_group: 3 })).toMatchObject({ field: 'n_group' });
    expect(fault(GROUPS, { topk_group: 5 })).toMatchObject({ field: 'topk_group' });
    expect(fault(GROUPS, { topk_group: null })).toMatchObject({ field: 'topk_group', problem: 'is missing' });
    const few = fault(GROUPS, { topk_group: 1, num_experts_per_tok: 3 });
    expect(few).toMatchObject({ field: 'topk_group', problem: '1 groups of 2 do not hold 3 experts' });
  });

  it('refuses scores it does not know', () => {
    expect(fault('deepseek3', { scoring_func: 'sqrtsoftplus' })).toMatchObject({ field: 'scoring_func' });
  });

  it('names an expert that is missing', () => {
    const model = formulaModel(QWEN);
    const name = 'model.layers.1.mlp.experts.2.up_proj.weight';
    const opened = withTensors(
      QWEN,
      formulaTensors(model).filter((tensor) => tensor.name !== name),
    );
    expect(faultOf(() => buildSpec(opened))).toMatchObject({
      field: name,
      remedy: expect.stringContaining('incomplete'),
    });
  });

  it('names the tensor that shows a layout it does not know', () => {
    const renamed = formulaTensors(formulaModel(QWEN)).map((tensor) => ({
      ...tensor,
      name: tensor.name.replace('.experts.', '.packed_experts.'),
    }));
    const { field, problem, remedy } = faultOf(() => buildSpec(withTensors(QWEN, renamed)));
    expect(field).toMatch(/^model\.layers\.0\.mlp\.experts\./);
    expect(problem).toBe(
      'is not there, but model.layers.0.mlp.packed_experts.0.down_proj.weight is: this layout of qwen3moe is not known',
    );
    expect(remedy).not.toContain('incomplete');
    const strange = renamed.map((tensor) => ({ ...tensor, name: `strange.${tensor.name}` }));
    expect(faultOf(() => buildSpec(withTensors(QWEN, strange))).problem).toMatch(/is not known/);
  });

  it('names experts of the wrong shape, by themselves and in one tensor', () => {
    expect(fault(QWEN, { moe_intermediate_size: 32 })).toMatchObject({
      field: 'model.layers.0.mlp.experts.0.gate_proj.weight',
      problem: 'has the shape [24, 32] where the configuration asks for [32, 32]',
    });
    expect(fault('gemma4 with experts beside', { moe_intermediate_size: 32 })).toMatchObject({
      field: 'model.layers.0.experts.gate_up_proj',
    });
    expect(fault('llama4', { intermediate_size: 40 }).field).toMatch(/^model\.layers\.\d\.feed_forward\./);
  });
});

describe('buildSpec on what few families have', () => {
  const fault = (name: string, change: Fields) => faultOf(() => specOf(name, change));

  it.each([
    ['deepseek3', 'kv_lora_rank'],
    ['deepseek3', 'q_lora_rank'],
    ['deepseek3', 'qk_nope_head_dim'],
    ['deepseek3', 'qk_rope_head_dim'],
    ['deepseek3', 'v_head_dim'],
    ['deepseek3', 'n_shared_experts'],
    ['deepseek3', 'first_k_dense_replace'],
    ['qwen3 with experts', 'moe_intermediate_size'],
    ['qwen2 with experts in every other layer', 'decoder_sparse_step'],
    ['qwen2 with experts in every other layer', 'shared_expert_intermediate_size'],
    ['gemma4 with inputs of layers', 'hidden_size_per_layer_input'],
    ['gemma4 with inputs of layers', 'num_kv_shared_layers'],
    ['gemma4 with inputs of layers', 'global_head_dim'],
    ['gemma4 with experts beside', 'num_global_key_value_heads'],
    ['gemma3n', 'laurel_rank'],
    ['gemma3n', 'altup_num_inputs'],
    ['llama4', 'attention_chunk_size'],
    ['llama4', 'floor_scale'],
    ['llama4', 'intermediate_size_mlp'],
  ])('refuses absurd values: %s, %s', (name, field) => {
    for (const value of [-4, 1.5, 2 ** 40, '32', [1], true])
      expect(fault(name, { [field]: value })).toMatchObject({ field });
  });

  it.each([
    ['granite', 'embedding_multiplier'],
    ['granite', 'attention_multiplier'],
    ['granite', 'residual_multiplier'],
    ['granite', 'logits_scaling'],
    ['cohere2', 'logit_scale'],
    ['gemma2', 'query_pre_attn_scalar'],
    ['gemma2', 'attn_logit_softcapping'],
    ['deepseek3', 'routed_scaling_factor'],
    ['llama4', 'attn_scale'],
  ])('refuses factors that are none: %s, %s', (name, field) => {
    for (const value of [0, -1, '2', Number.NaN, [1]])
      expect(fault(name, { [field]: value })).toMatchObject({ field });
  });

  it.each([
    ['bert', 'max_position_embeddings'],
    ['bert', 'type_vocab_size'],
    ['nomic_bert', 'intermediate_size'],
    ['modernbert', 'local_attention'],
    ['modernbert', 'global_attn_every_n_layers'],
    ['gemma3', 'sliding_window'],
  ])('refuses absurd values of encoders: %s, %s', (name, field) => {
    const model = encoderModel(name);
    for (const value of [-4, 1.5, 2 ** 40, '32', [1], true]) {
      const build = () => buildSpec(asFolder(model, { ...model.config, [field]: value }));
      expect(faultOf(build)).toMatchObject({ field });
    }
  });

  it('refuses positions that it does not know, and tables of another size', () => {
    const model = encoderModel('bert');
    const encoderFault = (change: Fields) =>
      faultOf(() => buildSpec(asFolder(model, { ...model.config, ...change })));
    expect(encoderFault({ position_embedding_type: 'relative_key' })).toMatchObject({
      field: 'position_embedding_type',
    });
    expect(encoderFault({ max_position_embeddings: 81 })).toMatchObject({
      field: 'embeddings.position_embeddings.weight',
    });
    expect(encoderFault({ type_vocab_size: 3 })).toMatchObject({
      field: 'embeddings.token_type_embeddings.weight',
    });
    const gemma = encoderModel('gemma3');
    const flag = { ...gemma.config, use_bidirectional_attention: 'all' };
    expect(faultOf(() => buildSpec(asFolder(gemma, flag)))).toMatchObject({
      field: 'use_bidirectional_attention',
    });
  });

  it('refuses lists of another length than the layers', () => {
    expect(fault('gemma3n', { intermediate_size: [48, 48] })).toMatchObject({ field: 'intermediate_size' });
    for (const pattern of [[0.5], [0.5, 0.5, 0.5, 1], 'all'])
      expect(fault('gemma3n', { activation_sparsity_pattern: pattern })).toMatchObject({
        field: 'activation_sparsity_pattern',
      });
    for (const list of [[1], [1, 1, 2, 0], 'none'])
      expect(fault('llama4', { no_rope_layers: list })).toMatchObject({ field: 'no_rope_layers' });
  });

  it('refuses layers that share keys with none', () => {
    expect(fault('gemma4 with inputs of layers', { num_kv_shared_layers: 2 })).toMatchObject({
      field: 'num_kv_shared_layers',
    });
  });

  it('refuses heads that cannot share the keys of one kind of layer', () => {
    const fields = { num_global_key_value_heads: 3 };
    expect(fault('gemma4 with experts beside', fields)).toMatchObject({
      field: 'num_global_key_value_heads',
    });
  });

  it('refuses what it would compute otherwise', () => {
    expect(fault('olmoe', { clip_qkv: 8 })).toMatchObject({ field: 'clip_qkv' });
    expect(fault('gemma3n', { altup_active_idx: 1 })).toMatchObject({ field: 'altup_active_idx' });
  });

  it('refuses a factor of a layer that is not one number', () => {
    const name = 'gemma4 with experts beside';
    const field = 'model.layers.0.layer_scalar';
    const tensors = formulaTensors(formulaModel(name)).map((tensor) =>
      tensor.name === field ? { ...tensor, shape: [2], values: Float32Array.of(1, 1) } : tensor,
    );
    expect(faultOf(() => buildSpec(withTensors(name, tensors)))).toMatchObject({ field });
  });
});
