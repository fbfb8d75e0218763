import { describe, expect, it } from 'vitest';
import { buildSpec } from '../model/build-spec.ts';
import { attentionsOf, bodiesOf, feedForwardSizes } from '../model/spec-walk.ts';
import { openText } from '../text/open-text.ts';
import { dummyModel, parseDummy } from './dummy-model.ts';
import { type DummyShape, type DummyShapeName, dummyShapes } from './dummy-shapes.ts';

const names = Object.keys(dummyShapes) as DummyShapeName[];

describe.each(names)('a dummy of %s', (name) => {
  const model = dummyModel(name, 'Q4_K');
  const shape: DummyShape = dummyShapes[name];

  it('is a complete model of that shape', () => {
    const { hidden, heads, kvHeads, headSize, ffn, experts, deltaNet, layers } = shape;
    const attending = layers / (deltaNet?.interval ?? 1);
    const spec = buildSpec(model);
    expect(spec).toMatchObject({
      hiddenSize: hidden,
      vocabSize: shape.vocab,
      contextLength: shape.context,
      caches: Array.from({ length: attending }, () => ({ headCount: kvHeads, headSize })),
    });
    expect(spec.memories).toHaveLength(layers - attending);
    expect(attentionsOf(spec)[0]).toMatchObject({ headCount: heads, headSize });
    expect(feedForwardSizes(spec)).toEqual(experts === undefined ? { dense: ffn } : { expert: experts.size });
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
  const mixtures = bodiesOf(spec).filter((body) => body.kind === 'experts');
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

it('names are read without regard to case, and unknown halves refused', () => {
  expect(parseDummy('smollm2-135m:q8_0')).toEqual({ shape: 'smollm2-135m', type: 'Q8_0' });
  expect(parseDummy('smollm2-135m:IQ4_xs')).toEqual({ shape: 'smollm2-135m', type: 'IQ4_XS' });
  for (const text of ['', 'smollm2-135m', 'toString:q8_0', 'smollm2-135m:q9', 'smollm2-135m:q8_0:x']) {
    expect(parseDummy(text)).toBeUndefined();
  }
});
