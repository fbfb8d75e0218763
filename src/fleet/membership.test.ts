import { expect, it } from 'vitest';
import { workerStatus } from '../../test/support/node-status.ts';
import { Membership } from './membership.ts';
import type { NodeStatus } from './messages.ts';

const statusOf = (start: string, over: Partial<NodeStatus> = {}) => workerStatus('w', { start, ...over });

it('of two processes of one name the one that was heard of later counts, whatever their clocks say', () => {
  const membership = new Membership();
  const seen: string[] = [];
  membership.onChange((change, { start }) => seen.push(`${start} ${change}`));
  membership.handle(statusOf('z'), 0);
  membership.handle(statusOf('a'), 1);
  // Late messages of the earlier one.
  membership.handle(statusOf('z'), 2);
  membership.handle(statusOf('z', { leaving: true }), 3);
  expect(membership.get('w')?.start).toBe('a');
  expect(seen).toEqual(['z joined', 'z left', 'a joined']);
  membership.handle(statusOf('a', { leaving: true }), 4);
  expect(membership.all()).toEqual([]);
});
