import { describe, expect, it } from 'vitest';
import { decodeSpeed, decodeSteps } from './measure.ts';
import type { MeasuredStep } from './measured-engine.ts';

const step = (tokens: number, sequences: number, wallMs: number): MeasuredStep => ({
  tokens,
  sequences,
  wallMs,
  times: {
    scheduleMs: 0.05 * wallMs,
    computeMs: 0.8 * wallMs,
    sampleMs: 0.1 * wallMs,
    emitMs: 0.01 * wallMs,
  },
});

describe('decode steps of a run', () => {
  it('are those in which all streams, and nothing else, compute a token', () => {
    const steps = [step(4, 4, 1), step(7, 4, 2), step(4, 4, 3), step(3, 3, 4), step(4, 3, 5), step(4, 4, 6)];
    expect(decodeSteps({ ms: 21, answers: [], steps }, 4).map(({ wallMs }) => wallMs)).toEqual([3, 6]);
  });
});

describe('their speed', () => {
  const speed = decodeSpeed([step(4, 4, 10), step(4, 4, 20), step(4, 4, 60)], 4);

  it('is tokens over the time of all steps, slow ones included', () => {
    expect(speed).toMatchObject({ steps: 3, stepMs: { median: 20, best: 10 } });
    expect(speed.tokensPerSecond).toBeCloseTo((3 * 4) / 0.09);
  });

  it('divides the time among its uses', () => {
    expect(speed.shares.compute).toBeCloseTo(0.8);
    expect(speed.shares.sample).toBeCloseTo(0.1);
    expect(speed.shares.schedule).toBeCloseTo(0.06);
    expect(speed.shares.rest).toBeCloseTo(0.04);
  });
});
