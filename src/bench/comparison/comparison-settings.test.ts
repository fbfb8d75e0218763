import { describe, expect, it } from 'vitest';
import { comparisonBlocks, comparisonSettings } from './comparison-settings.ts';

describe('the settings of a comparison', () => {
  it('are short, medium and long prompts at several concurrencies where nothing is said', () => {
    const { prompts, loads, tokens, repeats, kvType } = comparisonSettings({}, 4096);
    expect(prompts).toEqual([32, 128, 512]);
    expect(loads).toEqual([
      { concurrency: 4, requests: 8 },
      { concurrency: 8, requests: 16 },
      { concurrency: 16, requests: 32 },
    ]);
    expect({ tokens, repeats, kvType }).toEqual({ tokens: 32, repeats: 3, kvType: 'f16' });
  });

  it('keep to a short context where nobody gave prompts', () => {
    expect(comparisonSettings({}, 256).prompts).toEqual([32, 128]);
    expect(comparisonSettings({ tokens: 30 }, 40).prompts).toEqual([10]);
  });

  it('need blocks for as many of the longest requests as are under way at once', () => {
    const settings = comparisonSettings({ prompts: [40, 10], tokens: 30, concurrencies: [2, 5] }, 256);
    expect(comparisonBlocks(settings)).toBe(5 * 3);
  });

  it.each([
    ['prompts', { prompts: [] }, 'give a list'],
    ['prompts', { prompts: [1.5] }, 'not 1.5'],
    ['prompts', { prompts: [250] }, "250 tokens and answers of 32 do not fit the model's context of 256"],
    ['concurrencies', { concurrencies: [0] }, 'give whole numbers from 1 to 1024, not 0'],
    ['concurrencies', { concurrencies: [1025] }, 'not 1025'],
    ['tokens', { tokens: 0 }, 'not 0'],
    ['requests', { requests: 7, concurrencies: [4, 8] }, '7 cannot be 8 at once'],
    ['repeats', { repeats: Number.NaN }, 'not NaN'],
    ['threads', { threads: -1 }, 'not -1'],
    ['kvType', { kvType: 'f64' as 'f16' }, 'give one of f16, q8, q4'],
  ])('refuse wrong %s: %j', (option, wanted, message) => {
    expect(() => comparisonSettings(wanted, 256)).toThrow(
      expect.objectContaining({ name: 'OfflineError', option, message: expect.stringContaining(message) }),
    );
  });
});
