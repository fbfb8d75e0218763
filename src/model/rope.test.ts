// Expected tables come from the rotary initializers of HF transformers (float32), heads of 16 values.

import { describe, expect, it } from 'vitest';
import { longropeMagnitude, type RopeScaling, ropeTable, yarnMagnitude } from './rope.ts';

const yarn = {
  type: 'yarn',
  factor: 4,
  originalContext: 1024,
  betaFast: 32,
  betaSlow: 1,
  truncate: true,
  magnitude: yarnMagnitude(4),
} as const;

interface Expected {
  readonly base?: number;
  readonly scaling: RopeScaling;
  readonly frequencies: readonly number[];
  readonly magnitude: number;
}

const tables: Readonly<Record<string, Expected>> = {
  linear: {
    scaling: { type: 'linear', factor: 4 },
    frequencies: [0.25, 0.07905694, 0.025, 0.007905695, 0.0025, 0.0007905695, 0.00025, 7.905695e-5],
    magnitude: 1,
  },
  llama3: {
    base: 500_000,
    scaling: {
      type: 'llama3',
      factor: 8,
      lowFrequencyFactor: 1,
      highFrequencyFactor: 4,
      originalContext: 1024,
    },
    frequencies: [1, 0.1939228, 0.03760603, 0.001312569, 0.0001767767, 3.428102e-5, 6.64787e-6, 1.289173e-6],
    magnitude: 1,
  },
  yarn: {
    scaling: yarn,
    frequencies: [1, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025, 7.905695e-5],
    magnitude: 1.138629436111989,
  },
  'yarn with other betas, an exact ramp and weights on the magnitude': {
    scaling: {
      ...yarn,
      betaFast: 16,
      betaSlow: 2,
      truncate: false,
      magnitude: yarnMagnitude(4, 0.7) / yarnMagnitude(4, 0.5),
    },
    frequencies: [1, 0.3162278, 0.1, 0.0187018, 0.0025, 0.0007905695, 0.00025, 7.905695e-5],
    magnitude: 1.0259286501478284,
  },
  longrope: {
    scaling: {
      type: 'per-pair',
      factors: [1.5, 2, 3, 4, 6, 8, 12, 16],
      magnitude: longropeMagnitude(4, 1024),
    },
    frequencies: [
      0.6666667, 0.1581139, 0.03333334, 0.007905695, 0.001666667, 0.0003952847, 8.333333e-5, 1.976424e-5,
    ],
    magnitude: 1.0954451150103321,
  },
};

describe('ropeTable', () => {
  it.each(Object.entries(tables))('computes the known frequencies: %s', (_, expected) => {
    const rope = ropeTable({ base: expected.base ?? 10_000, dimensions: 16 }, expected.scaling);
    expect(rope.magnitude).toBeCloseTo(expected.magnitude, 12);
    expect(rope.inverseFrequencies.length).toBe(expected.frequencies.length);
    for (const [pair, frequency] of expected.frequencies.entries()) {
      expect(Math.abs((rope.inverseFrequencies[pair] ?? 0) / frequency - 1)).toBeLessThan(1e-6);
    }
  });

  it('never magnifies a context that is not stretched', () => {
    expect(yarnMagnitude(1)).toBe(1);
    expect(longropeMagnitude(1, 4096)).toBe(1);
  });
});
