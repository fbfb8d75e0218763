import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import type { Priority } from '#src/engine/scheduler/sequence.ts';
import { EventQueue } from './event-queue.ts';
import { SimulatedWorker, type WorkerShape } from './simulated-worker.ts';

const shape: WorkerShape = {
  speeds: { promptTokenMs: 1, stepBaseMs: 10, stepRowMs: 1, stepTokens: 100 },
  blocks: 100,
  maxRunning: 8,
};
const text = (first: number) => Int32Array.from({ length: 6000 }, (_, i) => first + i);

/** Keys that can be compared. */
const namesOf = (keys: Int32Array = new Int32Array(0)) =>
  Array.from({ length: keys.length / KEY_LANES }, (_, i) =>
    keys.subarray(KEY_LANES * i, KEY_LANES * (i + 1)).join(' '),
  );

function simulate(own: Partial<WorkerShape> = {}) {
  const events = new EventQueue();
  const log: [kind: string, id: number, value: number][] = [];
  const worker = new SimulatedWorker({ ...shape, ...own }, events, {
    onFirstToken: (id, nowMs) => log.push(['first', id, nowMs]),
    onEnd: (id, nowMs) => log.push(['end', id, nowMs]),
    onAdmitted: (id, cached) => log.push(['cached', id, cached]),
  });
  const send = (id: number, atMs: number, tokens: Int32Array, promptTokens: number, answerTokens: number) =>
    events.at(atMs, () =>
      worker.submit({ id, gateway: 0, tokens, promptTokens, answerTokens, priority: 1, enqueuedMs: atMs }),
    );
  const value = (kind: string, id: number) => log.find((one) => one[0] === kind && one[1] === id)?.[2];
  return { events, worker, log, send, value, run: () => events.run(() => true) };
}

describe('a simulated worker', () => {
  it('takes for a request alone what its steps cost', () => {
    const { send, run, value } = simulate();
    send(1, 0, text(0), 250, 11);
    run();
    // Steps of 100, 100 and 50 prompt tokens, then ten of one row.
    expect(value('first', 1)).toBe(3 * 10 + 250);
    expect(value('end', 1)).toBe(3 * 10 + 250 + 10 * 11);
  });

  it('computes a prompt beside rows that decode, in steps that take longer for it', () => {
    const { send, run, value } = simulate();
    send(1, 0, text(0), 10, 100);
    send(2, 25, text(1000), 50, 1);
    run();
    // The first decodes from 20 on, 11 ms a step; the second comes into the step from 31 to 92.
    expect(value('first', 1)).toBe(20);
    expect(value('end', 2)).toBe(31 + 10 + 1 + 50);
    expect(value('end', 1)).toBe(20 + 11 + 61 + 97 * 11);
  });

  it('finds what others have computed, answers included, but never the whole prompt', () => {
    const { send, run, value } = simulate();
    send(1, 0, text(0), 64, 40);
    send(2, 5000, text(0), 64, 1);
    send(3, 6000, text(0), 200, 1);
    run();
    expect([1, 2, 3].map((id) => value('cached', id))).toEqual([0, 32, 96]);
  });

  it('lets a request wait for a prefix which another computes, as engines do', () => {
    const { send, run, value } = simulate();
    send(1, 0, text(0), 250, 1);
    send(2, 1, text(0), 250, 1);
    run();
    expect(value('cached', 2)).toBe(224);
    expect(value('first', 2)).toBe((value('first', 1) as number) + 10 + 26);
  });

  it('waits for a place where all are taken', () => {
    const { send, run, value } = simulate({ maxRunning: 1 });
    send(1, 0, text(0), 50, 10);
    send(2, 1, text(1000), 50, 10);
    run();
    expect(value('first', 2)).toBe((value('end', 1) as number) + 60);
  });

  it('tells a status that adds up, and gives everything back in the end', () => {
    const { send, worker, events, run } = simulate({ maxRunning: 2 });
    for (let id = 0; id < 5; id++) send(id, 0, text(1000 * id), 120, 20);
    events.at(1, (nowMs) => {
      const status = worker.status('model', nowMs);
      expect(status).toMatchObject({ queuedTokens: [0, 600, 0], running: 1, waiting: [0, 4, 0] });
      expect(status.oldestMs).toEqual([0, 1, 0]);
    });
    run();
    expect(worker.status('model', events.nowMs)).toMatchObject({
      queuedTokens: [0, 0, 0],
      waiting: [0, 0, 0],
      running: 0,
      freeBlocks: 100,
    });
  });

  it('finishes everything with too few blocks for all at once, and tells exactly what its cache holds', () => {
    const request = fc.record({
      atMs: fc.nat(2000),
      group: fc.nat(3),
      promptTokens: fc.integer({ min: 1, max: 300 }),
      answerTokens: fc.integer({ min: 1, max: 200 }),
      priority: fc.constantFrom<Priority>(0, 1, 2),
    });
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 25 }), (requests) => {
        const { events, worker, log } = simulate({ blocks: 20 });
        requests.forEach(({ atMs, group, ...rest }, id) => {
          const tokens = text(10_000 * group);
          events.at(atMs, () => worker.submit({ ...rest, id, gateway: 0, tokens, enqueuedMs: atMs }));
        });
        const told = new Set<string>();
        const listen = () => {
          const change = worker.takeCacheChange();
          for (const key of namesOf(change?.left)) expect(told.delete(key)).toBe(true);
          for (const key of namesOf(change?.entered)) told.add(key);
          expect(told).toEqual(new Set(namesOf(worker.cachedKeys())));
          if (log.filter(([kind]) => kind === 'end').length < requests.length) {
            events.at(events.nowMs + 100, listen);
          }
        };
        events.at(0, listen);
        events.run(() => true);
        for (const kind of ['first', 'end', 'cached']) {
          expect(log.filter((one) => one[0] === kind).length).toBe(requests.length);
        }
        const { freeBlocks, queuedTokens } = worker.status('model', events.nowMs);
        expect({ freeBlocks, queuedTokens }).toEqual({ freeBlocks: 20, queuedTokens: [0, 0, 0] });
      }),
    );
  });

  it('tells, when it dies, how many tokens each had, and is empty and idle afterwards', () => {
    const { send, worker, events, run, log } = simulate();
    send(1, 0, text(0), 10, 1000);
    send(2, 0, text(1000), 90, 1000);
    send(3, 500, text(2000), 2000, 10);
    let had = new Map<number, number>();
    events.at(1000, () => {
      had = worker.kill();
      expect(worker.cachedKeys().length).toBe(0);
      expect(worker.status('model', 1000)).toMatchObject({ running: 0, queuedTokens: [0, 0, 0] });
    });
    run();
    expect([...had.keys()].sort()).toEqual([1, 2, 3]);
    expect(had.get(1)).toBeGreaterThan(10);
    // The second comes one step later, for the first had begun already.
    expect(had.get(1)).toBe((had.get(2) ?? 0) + 1);
    expect(had.get(3)).toBe(0);
    expect(log.filter(([kind]) => kind === 'end')).toEqual([]);
  });
});

describe('the queue of events', () => {
  it('lets everything happen in order of time, equals as they were planned', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20)), (times) => {
        const events = new EventQueue();
        const happened: [number, number][] = [];
        times.forEach((atMs, n) => {
          events.at(atMs, (nowMs) => happened.push([nowMs, n]));
        });
        events.run(() => true);
        const sorted = times
          .map((atMs, n): [number, number] => [atMs, n])
          .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        expect(happened).toEqual(sorted);
      }),
    );
  });
});
