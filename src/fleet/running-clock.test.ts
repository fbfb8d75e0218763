import { expect, it } from 'vitest';
import { workerStatus } from '../../test/support/node-status.ts';
import { nodeClock } from '../runtime/clock.ts';
import { Membership } from './membership.ts';
import { RunningClock } from './running-clock.ts';

it('a clock leaves out the time in which its process was held up, and no other', () => {
  let monotonicMs = 1000;
  const clock = new RunningClock({ ...nodeClock, monotonicMs: () => monotonicMs });
  const after = (ms: number) => {
    monotonicMs += ms;
    return clock.nowMs();
  };
  const beganMs = clock.nowMs();
  expect(after(250) - beganMs).toBe(250);
  expect(after(900) - beganMs).toBe(1150);
  expect(after(4500) - beganMs).toBe(1400);
  expect(after(250) - beganMs).toBe(1650);
  clock.close();
});

it('nodes that are silent for a lease are gone together before anybody hears of the first', () => {
  const membership = new Membership();
  for (const node of ['a', 'b', 'c']) membership.handle(workerStatus(node), 0);
  membership.handle(workerStatus('c'), 3000);
  const seen: string[] = [];
  membership.onChange((change, { node }) =>
    seen.push(`${node} ${change}, there: ${membership.workers().map((one) => one.node)}`),
  );
  membership.expire(3500);
  expect(seen).toEqual(['a left, there: c', 'b left, there: c']);
});
