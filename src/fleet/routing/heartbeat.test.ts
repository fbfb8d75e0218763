import { expect, it } from 'vitest';
import { wholeSpeeds } from './heartbeat.ts';

const slow = { promptTokenMs: 3, stepBaseMs: 40, stepRowMs: 2, stepTokens: 256 };
const fast = { promptTokenMs: 0.5, stepBaseMs: 4, stepRowMs: 0.1, stepTokens: 512 };

it('takes a worker that has measured nothing to be as fast as the fastest', () => {
  expect(wholeSpeeds({ stepTokens: 128 }, () => [slow, fast, slow])).toEqual({ ...fast, stepTokens: 128 });
});

it('believes what a worker has measured, and asks for nobody else then', () => {
  expect(wholeSpeeds(slow, () => expect.fail('asked'))).toEqual(slow);
  expect(wholeSpeeds({ stepTokens: 256, promptTokenMs: 3 }, () => [fast])).toEqual({
    ...fast,
    promptTokenMs: 3,
    stepTokens: 256,
  });
});

it('has figures where nobody has measured anything', () => {
  const { promptTokenMs, stepBaseMs, stepRowMs } = wholeSpeeds({ stepTokens: 256 }, () => []);
  for (const ms of [promptTokenMs, stepBaseMs, stepRowMs]) expect(ms).toBeGreaterThan(0);
});
