import { describe, expect, it } from 'vitest';
import { ConfigError } from '../config.ts';
import { readSamplingDefaults } from './sampling-defaults.ts';

describe('defaults of sampling', () => {
  it('are read by the names that requests use', () => {
    const given = ['temperature=0.7', 'top_k = 40', 'repetition_penalty=1.1'];
    expect(readSamplingDefaults(given)).toEqual({ temperature: 0.7, topK: 40, repetitionPenalty: 1.1 });
    expect(readSamplingDefaults([])).toEqual({});
  });

  it.each([
    ['temp=1', /name is one of temperature, .*top_k, .*dry_multiplier/],
    ['temperature', /temperature: must be a number/],
    ['top_p=2', /top_p: must be a number from 0 to 1/],
    ['top_k=1.5', /top_k: must be a whole number/],
  ])('are refused where a request would be: %s', (item, message) => {
    expect(() => readSamplingDefaults([item])).toThrow(ConfigError);
    expect(() => readSamplingDefaults([item])).toThrow(message);
  });
});
