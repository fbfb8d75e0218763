import { describe, expect, it } from 'vitest';
import { type SamplingRequest, validateSampling } from './parameters.ts';
import { finishReason, forbiddenIds } from './stop-condition.ts';

const END = [2, 3];

function parametersOf(request: SamplingRequest) {
  const validation = validateSampling(request, { vocabSize: 100, freshSeed: { low: 0, high: 0 } });
  if (!validation.ok) throw new Error(validation.problem);
  return validation.parameters;
}

describe('finishReason', () => {
  it('stops at the model’s end tokens and at stop ids', () => {
    const parameters = parametersOf({ stopIds: [50] });
    expect(finishReason(parameters, END, 2, 1)).toBe('stop');
    expect(finishReason(parameters, END, 50, 1)).toBe('stop');
    expect(finishReason(parameters, END, 51, 1)).toBeUndefined();
  });

  it('goes on past end tokens, but not past stop ids, under ignoreEos', () => {
    const parameters = parametersOf({ stopIds: [50], ignoreEos: true });
    expect(finishReason(parameters, END, 2, 1)).toBeUndefined();
    expect(finishReason(parameters, END, 50, 1)).toBe('stop');
  });

  it('ends at the most tokens, where a stop token still counts as a stop', () => {
    const parameters = parametersOf({ maxTokens: 4 });
    expect(finishReason(parameters, END, 9, 3)).toBeUndefined();
    expect(finishReason(parameters, END, 9, 4)).toBe('length');
    expect(finishReason(parameters, END, 2, 4)).toBe('stop');
  });
});

describe('forbiddenIds', () => {
  it('forbids every way to stop until the least number of tokens is there', () => {
    const parameters = parametersOf({ stopIds: [50], minTokens: 2 });
    expect(forbiddenIds(parameters, END, 0)).toEqual([50, 2, 3]);
    expect(forbiddenIds(parameters, END, 1)).toEqual([50, 2, 3]);
    expect(forbiddenIds(parameters, END, 2)).toEqual([]);
    // The end token itself is not counted.
    expect(finishReason(parameters, END, 2, 2)).toBeUndefined();
    expect(finishReason(parameters, END, 2, 3)).toBe('stop');
  });

  it('leaves end tokens alone under ignoreEos', () => {
    expect(forbiddenIds(parametersOf({ stopIds: [50], minTokens: 2, ignoreEos: true }), END, 0)).toEqual([
      50,
    ]);
  });
});
