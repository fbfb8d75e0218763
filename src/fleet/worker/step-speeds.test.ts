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
