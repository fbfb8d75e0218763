import { describe, expect, it } from 'vitest';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { EngineView } from '../../engine/live/engine-view.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { EngineTicks } from './engine-ticks.ts';
import { RequestTraces } from './request-traces.ts';

const viewOf = (given: Partial<EngineView>): EngineView => ({
  blockCount: 8,
  first: false,
  steps: 0,
  promptTokens: 0,
  generatedTokens: 0,
  timeline: [],
  riders: [],
  queues: [],
  waiting: [],
  blocks: [],
  blockCounts: { limit: 8, held: 0, used: 0, cached: 0, shared: 0 },
  preemptions: 0,
  evictions: 0,
  ...given,
});

/** An engine that answers when it is told to. */
function start() {
  const answers: ((view: EngineView | undefined) => void)[] = [];
  let subscriber: EngineSubscriber = {};
  const snapshot = () =>
    new Promise<EngineView>((resolve, reject) =>
      answers.push((view) => (view === undefined ? reject(new Error('gone')) : resolve(view))),
    );
  const monitor = {
    starts: 1,
    subscribe: (given: EngineSubscriber) => {
      subscriber = given;
      return { snapshot };
    },
  };
  const served = { name: 'm', blockCount: 8, engine: { monitor } } as unknown as ServedModel;
  const ticks = new EngineTicks(served, new RequestTraces(() => 0));
  const answer = async (view: EngineView | undefined) => {
    const polled = ticks.poll();
    answers.shift()?.(view);
    await polled;
  };
  return { ticks, monitor, answers, answer, lose: () => subscriber.lost?.(true) };
}

const rider = {
  seat: 0,
  id: 'e',
  priority: 0,
  phase: 'decode',
  promptTokens: 3,
  cachedTokens: 0,
  tokens: 4,
  computed: 3,
  blocks: 1,
  ageMs: 1.6,
} as const;

describe('an engine under a monitor', () => {
  it('is asked once at a time, and what it answers late is in the next tick', async () => {
    const { ticks, answers, answer } = start();
    const [first, second] = [ticks.poll(), ticks.poll()];
    expect(first).toBe(second);
    expect(answers.length).toBe(1);
    expect(ticks.tick()).toMatchObject({ steps: 0, riders: [] });
    await answer(viewOf({ first: true, steps: 3, generatedTokens: 2, blocks: [[0, 2, 4]], riders: [rider] }));
    await answer(viewOf({ steps: 4, generatedTokens: 5, blocks: [[1, 2, 1]], riders: [rider] }));
    expect(ticks.tick()).toMatchObject({
      steps: 7,
      generatedTokens: 7,
      riders: [{ seat: 0, requestId: 'e', tier: 'high', ageMs: 2 }],
      blocks: [
        [0, 1, 4],
        [1, 2, 1],
      ],
    });
    expect(ticks.tick()).toMatchObject({ steps: 0, blocks: [], riders: [{ seat: 0 }] });
    expect(ticks.snapshot().blocks).toEqual([
      [1, 4],
      [2, 1],
      [5, 0],
    ]);
  });

  it('is empty when it is lost, and its successor is told as what has changed', async () => {
    const { ticks, monitor, answer, lose } = start();
    await answer(viewOf({ first: true, blocks: [[0, 4, 2]], riders: [rider] }));
    ticks.tick();
    lose();
    await answer(undefined);
    monitor.starts = 2;
    expect(ticks.tick()).toMatchObject({ starts: 2, riders: [], blocks: [[0, 4, 0]] });
    await answer(viewOf({ first: true, blocks: [[2, 1, 4]] }));
    expect(ticks.tick().blocks).toEqual([[2, 1, 4]]);
  });
});
