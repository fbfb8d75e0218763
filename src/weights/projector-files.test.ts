import { describe, expect, it } from 'vitest';
import { projectorAmong } from './projector-files.ts';

describe('projectorAmong', () => {
  const qwen = 'Qwen2.5-VL-3B-Instruct';

  it('takes the one that names the model, in 16 bits where there are several', () => {
    const files = [
      `${qwen}-Q4_K_M.gguf`,
      'gemma-3-4b-it-Q4_K_M.gguf',
      `mmproj-${qwen}-Q8_0.gguf`,
      `mmproj-${qwen}-f16.gguf`,
      'mmproj-gemma-3-4b-it-f16.gguf',
    ];
    expect(projectorAmong(`${qwen}-Q4_K_M.gguf`, files)).toBe(`mmproj-${qwen}-f16.gguf`);
    expect(projectorAmong('gemma-3-4b-it-Q4_K_M.gguf', files)).toBe('mmproj-gemma-3-4b-it-f16.gguf');
  });

  it('takes one without a name for the only model of its folder, in any quantization', () => {
    const files = [`${qwen}-Q4_K_M.gguf`, `${qwen}-UD-Q2_K_XL.gguf`, 'mmproj-F32.gguf', 'mmproj-BF16.gguf'];
    expect(projectorAmong(`${qwen}-Q4_K_M.gguf`, files)).toBe('mmproj-BF16.gguf');
    expect(projectorAmong('model.gguf', ['model.gguf', 'mmproj.gguf'])).toBe('mmproj.gguf');
    const parts = [`BF16/${qwen}-BF16-00001-of-00002.gguf`, 'mmproj-F16.gguf'];
    expect(projectorAmong(parts[0] as string, parts)).toBe('mmproj-F16.gguf');
  });

  it('takes none that could be of another model', () => {
    expect(
      projectorAmong('llama-3.2-1b-Q4_K_M.gguf', ['llama-3.2-1b-Q4_K_M.gguf', `mmproj-${qwen}.gguf`]),
    ).toBe(undefined);
    const two = ['llama-3.2-1b-Q4_K_M.gguf', `${qwen}-Q4_K_M.gguf`, 'mmproj-F16.gguf'];
    expect(projectorAmong('llama-3.2-1b-Q4_K_M.gguf', two)).toBe(undefined);
  });
});
