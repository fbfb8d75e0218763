import { describe, expect, it } from 'vitest';
import { huggingFaceConfig } from './hugging-face-config.ts';

describe('the text model inside a model that sees', () => {
  it('has its own type in a wrapper of several kinds, and that of a wrapper made for it', () => {
    const type = (outer: string, inner: string) =>
      huggingFaceConfig('config.json', { model_type: outer, text_config: { model_type: inner } }).fields
        .model_type;
    expect(type('internvl', 'qwen2')).toBe('qwen2');
    expect(type('mistral3', 'ministral3')).toBe('ministral3');
    expect(type('glm4v', 'glm4v_text')).toBe('glm4v');
  });

  it('has the sizes of Llama 2 and Mistral 7B where LLaVA leaves them out, and its own where not', () => {
    const fields = (text: Readonly<Record<string, unknown>>) =>
      huggingFaceConfig('config.json', { model_type: 'llava', text_config: text }).fields;
    expect(fields({ model_type: 'llama' })).toMatchObject({ hidden_size: 4096, intermediate_size: 11_008 });
    expect(fields({ model_type: 'mistral', hidden_size: 5120 })).toMatchObject({
      hidden_size: 5120,
      intermediate_size: 14_336,
    });
  });
});
