import { expect, it } from 'vitest';
import type { StepSummary } from '../../engine/step-report.ts';
import { StepSpeeds } from './step-speeds.ts';

function step(tokens: number, sequences: number, computeMs: number): StepSummary {
  const times = { scheduleMs: 0, computeMs, sampleMs: 0, emitMs: 0 };
  return { step: 1, tokens, sequences, admitted: [], preempted: [], finished: [], times };
}

it('learns what a row of a step and a token of a prompt take', () => {
  const speeds = new StepSpeeds();
  for (let i = 0; i < 200; i++) {
    const rows = 1 + (i % 8);
    speeds.observe(step(rows, rows, 10 + 2 * rows));
    speeds.observe(step(101, 1, 50));
  }
  const { stepBaseMs, stepRowMs, promptTokenMs } = speeds.speeds;
  expect(stepBaseMs).toBeCloseTo(10, 1);
  expect(stepRowMs).toBeCloseTo(2, 1);
  expect(promptTokenMs).toBeCloseTo(0.5, 2);
});

it('a step that hung counts as a disturbance, and a machine that has become slower is learned', () => {
  const speeds = new StepSpeeds();
  const work = (factor: number) => {
    for (let i = 0; i < 200; i++) {
      const rows = 1 + (i % 8);
      speeds.observe(step(rows, rows, factor * (10 + 2 * rows)));
      speeds.observe(step(101, 1, factor * 50));
    }
  };
  work(1);
  speeds.observe(step(24, 1, 15_000));
  speeds.observe(step(4, 4, 15_000));
  const { promptTokenMs, stepBaseMs, stepRowMs } = speeds.speeds;
  expect(promptTokenMs).toBeLessThan(1);
  expect((stepBaseMs ?? 0) + (stepRowMs ?? 0)).toBeLessThan(20);
  work(20);
  expect(speeds.speeds.promptTokenMs).toBeCloseTo(10, 1);
  expect(speeds.speeds.stepBaseMs).toBeCloseTo(200, 0);
  expect(speeds.speeds.stepRowMs).toBeCloseTo(40, 0);
});

it('a step that hung counts as a disturbance where only prompts are computed, too', () => {
  const speeds = new StepSpeeds();
  for (let i = 0; i < 20; i++) speeds.observe(step(101, 1, 50));
  speeds.observe(step(101, 1, 15_000));
  expect(speeds.speeds).toEqual({ stepTokens: 256, promptTokenMs: expect.closeTo(0.55, 5) });
});
