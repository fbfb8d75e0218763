import { describe, expect, it } from 'vitest';
import { tinyModel } from '../../../test/support/tiny-model.ts';
import { checkSettings, neededBlocks, type OfflineSettings } from './offline-settings.ts';

const { spec } = tinyModel({ contextLength: 512 });
const settings: OfflineSettings = {
  streams: [1, 8, 4],
  promptTokens: 100,
  outputTokens: 28,
  threads: 1,
  kvType: 'f16',
  repeats: 1,
  prefixTokens: undefined,
};
const roomy = { weightBytes: 1e6, bytesPerBlock: 1e6, availableBytes: 1e9 };
const check = (change: Partial<OfflineSettings>, memory = roomy) => {
  return () => checkSettings({ ...settings, ...change }, spec, memory);
};

describe('blocks', () => {
  it('suffice for the most streams at their full length', () => {
    expect(neededBlocks(settings)).toBe(8 * 4);
    expect(neededBlocks({ ...settings, outputTokens: 29 })).toBe(8 * 5);
  });

  it('suffice for the prompt that is asked for twice', () => {
    expect(neededBlocks({ ...settings, streams: [1], prefixTokens: 2048 })).toBe(65);
  });
});

describe('settings', () => {
  it('are accepted up to the very end of context and memory', () => {
    expect(check({ promptTokens: 484 })).not.toThrow();
    expect(check({ prefixTokens: 511 })).not.toThrow();
    expect(check({}, { ...roomy, availableBytes: 33e6 })).not.toThrow();
  });

  it('that exceed the context are refused', () => {
    expect(check({ promptTokens: 485 })).toThrow(
      "--prompt and --tokens: 485 + 28 tokens do not fit the model's context of 512",
    );
    expect(check({ prefixTokens: 512 })).toThrow(
      "--prefix: 512 tokens and an answer do not fit the model's context",
    );
  });

  it('that exceed the memory are refused with what is needed and what is there', () => {
    expect(check({}, { weightBytes: 2e9, bytesPerBlock: 1e8, availableBytes: 5e9 })).toThrow(
      'not enough memory: 2.0 GB of weights and 3.2 GB of KV for 8 streams, but 5.0 GB are there',
    );
  });

  it('that leave nothing to measure are refused', () => {
    expect(check({ outputTokens: 3 })).toThrow('--tokens: give at least 4');
    expect(check({ prefixTokens: 32 })).toThrow('--prefix: give more than 32 tokens');
  });
});
