import { describe, expect, it } from 'vitest';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import { applyChange, type EngineSnapshot, emptySnapshot } from '../../engine/live/snapshot.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { EngineTicks } from './engine-ticks.ts';
import { RequestTraces } from './request-traces.ts';

const snapshotOf = (given: Partial<EngineSnapshot>): EngineSnapshot => ({
  ...emptySnapshot(8),
  whole: false,
  ...given,
});

/** An engine that answers when the test says so. */
function start() {
  const answers: ((given: EngineSnapshot | undefined) => void)[] = [];
  let subscriber: EngineSubscriber = {};
  const snapshot = () =>
    new Promise<EngineSnapshot>((resolve, reject) =>
      answers.push((given) => (given === undefined ? reject(new Error('gone')) : resolve(given))),
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
  const answer = async (given: EngineSnapshot | undefined) => {
    const polled = ticks.poll();
    answers.shift()?.(given);
    await polled;
  };
  return { ticks, monitor, answers, answer, lose: () => subscriber.lost?.(true) };
}

const sequence = {
  lane: 0,
  requestId: 'e',
  tier: 'high',
  phase: 'decode',
  promptTokens: 3,
  cachedTokens: 0,
  tokens: 4,
  computedTokens: 3,
  blocks: 1,
  ageMs: 2,
} as const;

describe('an engine under a monitor', () => {
  it('is asked once at a time, and what it answers late is in the next tick', async () => {
    const { ticks, answers, answer } = start();
    const [first, second] = [ticks.poll(), ticks.poll()];
    expect(first).toBe(second);
    expect(answers.length).toBe(1);
    expect(ticks.tick()).toMatchObject({ steps: 0, running: [] });
    await answer(
      snapshotOf({ whole: true, steps: 3, generatedTokens: 2, blocks: [[0, 2, 4]], running: [sequence] }),
    );
    await answer(snapshotOf({ steps: 4, generatedTokens: 5, blocks: [[1, 2, 1]], running: [sequence] }));
    const tick = ticks.tick();
    expect(tick).toMatchObject({ whole: true, steps: 7, generatedTokens: 7, running: [sequence] });
    const map = [4, 1, 1, 0, 0, 0, 0, 0];
    expect([...applyChange(new Int32Array(0), tick)]).toEqual(map);
    expect(ticks.tick()).toMatchObject({ whole: false, steps: 0, blocks: [], running: [{ lane: 0 }] });
    expect([...applyChange(new Int32Array(0), ticks.whole(tick))]).toEqual(map);
  });

  it('is empty when it is lost, and its successor begins with a map of its own', async () => {
    const { ticks, monitor, answer, lose } = start();
    await answer(snapshotOf({ whole: true, blocks: [[0, 4, 2]], running: [sequence] }));
    ticks.tick();
    lose();
    await answer(undefined);
    monitor.starts = 2;
    expect(ticks.tick()).toMatchObject({ starts: 2, running: [], whole: true, blocks: [] });
    await answer(snapshotOf({ whole: true, blocks: [[2, 1, 4]] }));
    expect(ticks.tick()).toMatchObject({ whole: true, blocks: [[2, 1, 4]] });
  });
});
