// Every invariant of the scheduler between plans and commits, stated as code, those of its cache included.

import { fullBlocks } from '../cache/block-tables.ts';
import { checkCacheIntegrity, invariant } from '../cache/integrity.ts';
import type { Scheduler } from './scheduler.ts';
import type { Sequence } from './sequence.ts';

export function checkIntegrity(scheduler: Scheduler): void {
  const planned = scheduler.planned?.items ?? [];
  const ends = new Map(planned.map(({ sequence, start, count }) => [sequence, start + count]));
  checkCacheIntegrity(scheduler.tables, scheduler.running, ends);
  const seen = new Set<Sequence>();
  for (const sequence of scheduler.running) {
    invariant(!seen.has(sequence), `${sequence.id} runs once`);
    seen.add(sequence);
    checkRunning(sequence);
    checkImages(sequence, ends.get(sequence) ?? sequence.computed);
    const own = scheduler.running.filter(
      ({ priority, account }) => priority === sequence.priority && account === sequence.account,
    );
    invariant(
      scheduler.runningOfAccount(sequence) === own.length,
      `the running ones of ${sequence.id}'s account are counted`,
    );
  }
  for (const sequence of scheduler.waiting()) {
    invariant(!seen.has(sequence), `${sequence.id} either runs or waits, once`);
    seen.add(sequence);
    checkWaiting(sequence);
  }
  invariant(seen.size === scheduler.running.length + scheduler.waitingCount, 'all that wait are counted');
  for (const { sequence, owner, blocks } of scheduler.deferred()) {
    invariant(owner.state === 'running', `${sequence.id} waits for ${owner.id}, which runs`);
    invariant(
      fullBlocks(owner) < blocks,
      `${sequence.id} waits for blocks that ${owner.id} has yet to compute`,
    );
    invariant(owner.rank <= sequence.key, `${owner.id} is as urgent as ${sequence.id}, which waits for it`);
  }
}

function checkRunning(sequence: Sequence): void {
  invariant(sequence.state === 'running', `${sequence.id} runs but is ${sequence.state}`);
  invariant(sequence.rank <= sequence.key, `${sequence.id} is no less urgent than its key`);
}

function checkImages({ id, images, computed }: Sequence, end: number): void {
  if (images === undefined) return;
  invariant(images.features !== undefined, `${id} runs with the features of its images`);
  invariant(end === computed || !images.isWithin(end), `${id} computes images whole, up to ${end}`);
}

function checkWaiting(sequence: Sequence): void {
  const { id, state, blocks, computed, rank, key } = sequence;
  invariant(state === 'waiting' || state === 'preempted', `${id} waits but is ${state}`);
  invariant(blocks.length === 0 && computed === 0, `${id} waits and holds no blocks`);
  invariant(rank === key, `${id} waits with its own urgency`);
}
