import { describe, expect, it } from 'vitest';
import { engineRequest, type TestRequest } from '../../test/support/engine-requests.ts';
import { OpenAnswer, OpenEmbedding } from './open-request.ts';
import type { AnswerRequest } from './request.ts';
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

describe('how the tokens of a draft are sampled that are not known yet', () => {
  const lookahead = (sampling: NonNullable<TestRequest['sampling']>, more: Partial<TestRequest> = {}) => {
    const request = engineRequest({ prompt: [5, 6, 7], sampling, ...more }) as AnswerRequest;
    return new OpenAnswer(request, { maxTokens: 60, endIds: [2], vocabSize: 4096 }).lookahead();
  };

  it('is as it will be once they are: each at its position, and no end before the least length', () => {
    const asked = { temperature: 1, seed: 3, minTokens: 3, maxTokens: 20 };
    const rows = lookahead(asked).rows(5);
    const known = lookahead(asked);
    for (const row of rows) {
      expect(row).toEqual(known.row());
      known.accept(9);
    }
    expect(rows.map(({ position }) => position)).toEqual([3, 4, 5, 6, 7]);
    expect(rows.map(({ forbidden }) => forbidden.length > 0)).toEqual([true, true, true, false, false]);
  });

  it('is known for the first alone where it depends on which they are', () => {
    for (const sampling of [{ repetitionPenalty: 1.2 }, { dryMultiplier: 1 }, { badWords: ['8 9'] }]) {
      expect(lookahead(sampling).rows(5)).toHaveLength(1);
    }
    const thinking = { tokens: 9, opened: true, opens: [], closes: [[8]], ending: [8] };
    expect(lookahead({}, { thinking }).rows(5)).toHaveLength(1);
  });
});
