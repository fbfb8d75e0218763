import { describe, expect, it } from 'vitest';
import { buildSpec } from '../model/build-spec.ts';
import { attentionsOf, bodiesOf, feedForwardSizes } from '../model/spec-walk.ts';
import { openText } from '../text/open-text.ts';
import { dummyModel, parseDummy } from './dummy-model.ts';
import { type DummyShape, type DummyShapeName, dummyShapes, seesAll } from './dummy-shapes.ts';

const names = Object.keys(dummyShapes) as DummyShapeName[];

describe.each(names)('a dummy of %s', (name) => {
  const model = dummyModel(name, 'Q4_K');
  const shape: DummyShape = dummyShapes[name];

  it('is a complete model of that shape', () => {
    const { hidden, heads, headSize, ffn, experts, gatedDeltaNet, global, layers } = shape;
    const attending = layers / (gatedDeltaNet?.interval ?? 1);
    const spec = buildSpec(model);
    const cacheOf = (layer: number) => (global !== undefined && seesAll(shape, layer) ? global : shape);
    expect(spec).toMatchObject({
      hiddenSize: hidden,
      vocabSize: shape.vocab,
      contextLength: shape.context,
      caches: Array.from({ length: attending }, (_, layer) => ({
        headCount: cacheOf(layer).kvHeads,
        headSize: cacheOf(layer).headSize,
      })),
    });
    expect(spec.recurrentStates).toHaveLength(layers - attending);
    expect(attentionsOf(spec)[0]).toMatchObject({ headCount: heads, headSize });
    expect(feedForwardSizes(spec)).toEqual({
      ...(experts === undefined || experts.beside ? { dense: ffn } : {}),
      ...(experts === undefined ? {} : { expert: experts.size }),
    });
  });

  it('speaks: any text has tokens, and its own special ones', () => {
    const { tokenizer, template } = openText(model);
    const text = 'Grüße from the chairlift 🚠';
    expect(tokenizer.decode([...tokenizer.encode(text, { bos: true })])).toBe(text);
    expect(tokenizer.eosIds).toEqual(new Set([shape.vocab - 1]));
    const messages = [{ role: 'user', content: 'Hi' }];
    expect(template?.render({ messages, addGenerationPrompt: true })).toBe('user: Hi\nassistant: ');
  });
});

it('a dummy may be cut to its first layers, and has as many experts in each as the real one', () => {
  const spec = buildSpec(dummyModel('qwen3-30b-a3b', 'Q4_0', 2));
  expect(spec.layers).toHaveLength(2);
  const mixtures = bodiesOf(spec).filter((body) => body.kind === 'moe');
  expect(mixtures.map(({ experts, router }) => [experts.length, router.used])).toEqual([
    [128, 8],
    [128, 8],
  ]);
});

it('rows that are no whole super-blocks fall back to Q8_0', () => {
  const { tensors } = dummyModel('qwen2.5-0.5b', 'Q4_K').weights;
  expect(tensors.get('blk.0.attn_q.weight')?.type).toBe('Q8_0');
  expect(tensors.get('blk.0.ffn_down.weight')?.type).toBe('Q4_K');
});

it('a dummy of Gemma 4 sees all tokens in every sixth layer, where keys are values', () => {
  const { weights, ...model } = dummyModel('gemma-4-26b-a4b', 'Q4_0', 6);
  const attentions = attentionsOf(buildSpec({ ...model, weights }));
  expect(attentions.map(({ window, headSize }) => [window, headSize])).toEqual([
    ...Array(5).fill([1024, 256]),
    [undefined, 512],
  ]);
  expect(weights.tensors.has('blk.4.attn_v.weight')).toBe(true);
  expect(weights.tensors.has('blk.5.attn_v.weight')).toBe(false);
});

it('a dummy in MXFP4 holds experts in it, and the rest in Q8_0; without experts, all', () => {
  const mixture = dummyModel('gpt-oss-20b', 'MXFP4', 1).weights.tensors;
  expect(mixture.get('blk.0.ffn_down_exps.weight')?.type).toBe('MXFP4');
  expect(mixture.get('blk.0.attn_q.weight')?.type).toBe('Q8_0');
  expect(dummyModel('llama-3.2-1b', 'MXFP4', 1).weights.tensors.get('blk.0.attn_q.weight')?.type).toBe(
    'MXFP4',
  );
});

it('names are read without regard to case, and unknown halves refused', () => {
  expect(parseDummy('smollm2-135m:q8_0')).toEqual({ shape: 'smollm2-135m', type: 'Q8_0' });
  expect(parseDummy('smollm2-135m:IQ4_xs')).toEqual({ shape: 'smollm2-135m', type: 'IQ4_XS' });
  for (const text of ['', 'smollm2-135m', 'toString:q8_0', 'smollm2-135m:q9', 'smollm2-135m:q8_0:x']) {
    expect(parseDummy(text)).toBeUndefined();
  }
});
