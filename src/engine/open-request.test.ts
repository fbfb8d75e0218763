import { expect, it } from 'vitest';
import { OpenEmbedding } from './open-request.ts';
import { Scheduler } from './scheduler/scheduler.ts';

it('a request that is cancelled after its preemption counts the prompt tokens that were computed for it', () => {
  const scheduler = new Scheduler({ blockCount: 16, budget: { kind: 'fixed', maxStepTokens: 64 } });
  const prompt = Int32Array.from({ length: 200 }, (_, at) => at);
  const open = new OpenEmbedding({ id: 'a', prompt, pooling: 'last', priority: 1, enqueuedMs: 0 } as never);
  expect(scheduler.add(open.sequence).accepted).toBe(true);
  scheduler.commit(scheduler.plan(0), [], 1);
  expect(open.computedPrompt).toBe(64);
  scheduler.preempt(open.sequence);
  expect(open.sequence.computed).toBe(0);
  expect(open.ended('cancelled')).toMatchObject({ promptTokens: 64, generatedTokens: 0 });
});
