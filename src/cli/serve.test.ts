import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../pool/served-model.ts';
import { chatTemplate } from '../text/chat-template.ts';
import { welcome } from './serve.ts';

describe('what a started server says', () => {
  const served = (template: ServedModel['template'], needsKey = false, made: Partial<ServedModel> = {}) =>
    welcome({
      needsKey,
      url: 'http://127.0.0.1:8000',
      adminUrl: undefined,
      model: {
        name: 'm',
        template,
        spec: { contextLength: 64 },
        blockCount: 2,
        direct: false,
        ...made,
      } as ServedModel,
    });

  it('is an example that works for its model, with a chat template or without one', () => {
    expect(served(chatTemplate({ template: '', specialTokens: {} }))).toContain('/v1/chat/completions');
    const plain = served(undefined);
    expect(plain).not.toContain('/chat/');
    expect(plain).toContain('curl http://127.0.0.1:8000/v1/completions');
    expect(plain).toContain('--chat-template');
  });

  it('is an example of what its model is made for, where that is not writing', () => {
    const pooling = { possible: true, pooling: 'cls', declared: true } as const;
    const head = { pooling: 'cls', activation: 'none', pairs: { kind: 'joined', secondText: 0 } } as const;
    const template = chatTemplate({ template: '', specialTokens: {} });
    expect(served(template, false, { pooling })).toContain('/v1/embeddings -H');
    const scored = (labels: string[]) => served(undefined, false, { classifier: { ...head, labels } });
    expect(scored(['score'])).toContain('/v1/rerank -H');
    expect(scored(['good', 'bad'])).toContain('/classify -H');
  });

  it('begins with the address of the page, and its example has a key where one is needed', () => {
    const template = chatTemplate({ template: '', specialTokens: {} });
    expect(served(template)).toMatch(/^Chairlift listens on http:\/\/127\.0\.0\.1:8000 /);
    expect(served(template)).not.toContain('authorization');
    for (const text of [served(template, true), served(undefined, true)])
      expect(text).toMatch(/KEY=.*keys create.*\ncurl \S+ -H "authorization: Bearer \$KEY" -H /);
  });
});
