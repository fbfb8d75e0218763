import { describe, expect, it } from 'vitest';
import { RecentSteps } from './step-rates.ts';

describe('the steps of late', () => {
  it('are counted by the second, with their mean size', () => {
    const recent = new RecentSteps(0);
    for (let ms = 0; ms < 3000; ms += 20) recent.observe({ tokens: ms < 2900 ? 4 : 14, sequences: 4 }, ms);
    const { stepsPerSecond, tokensPerStep, sequencesPerStep } = recent.rates(3000);
    expect(stepsPerSecond).toBeCloseTo(50, 0);
    expect(sequencesPerStep).toBe(4);
    expect(tokensPerStep).toBeGreaterThan(4);
    expect(tokensPerStep).toBeLessThan(6);
  });

  it('are none before the first one, and none soon after the last', () => {
    const recent = new RecentSteps(0);
    const none = { stepsPerSecond: 0, tokensPerStep: 0, sequencesPerStep: 0 };
    expect(recent.rates(10)).toEqual(none);
    recent.observe({ tokens: 8, sequences: 1 }, 20);
    expect(recent.rates(500)).toEqual({ stepsPerSecond: 1, tokensPerStep: 8, sequencesPerStep: 1 });
    expect(recent.rates(1500).stepsPerSecond).toBeGreaterThan(0);
    expect(recent.rates(4000)).toEqual(none);
  });
});
