import { describe, expect, it } from 'vitest';
import { engineRequest } from '../../test/support/engine-requests.ts';
import type { EngineRequest, RequestEvent } from '../engine/request.ts';
import { UnfinishedRequests } from './unfinished-requests.ts';

const token = ({ id }: EngineRequest, value: number): RequestEvent => ({ kind: 'token', id, token: value });

const finish = ({ id }: EngineRequest): RequestEvent => ({
  kind: 'finish',
  id,
  reason: 'stop',
  promptTokens: 1,
  cachedTokens: 0,
  generatedTokens: 1,
});

const ids = (requests: readonly EngineRequest[]) => requests.map(({ id }) => id);

describe('unfinished requests', () => {
  it('go on with the tokens they had', () => {
    const unfinished = new UnfinishedRequests();
    const request = engineRequest({ prompt: [1, 2] });
    unfinished.add(request);
    expect(unfinished.takeSubmittable()).toEqual([request]);
    expect(unfinished.takeSubmittable()).toEqual([]);
    unfinished.note([token(request, 5), token(request, 8)]);
    expect(unfinished.die()).toEqual([]);
    const [again] = unfinished.takeSubmittable();
    expect(again).toEqual({ ...request, answer: [5, 8] });
    unfinished.note([token(request, 9), finish(request)]);
    expect(unfinished.size).toBe(0);
  });

  it('are given again where the engine did not take them, which is no death', () => {
    const unfinished = new UnfinishedRequests();
    const request = engineRequest({ prompt: [1, 2] });
    unfinished.add(request);
    for (let time = 0; time < 5; time++) {
      expect(unfinished.takeSubmittable()).toEqual([request]);
      unfinished.resubmit(request.id);
      expect(unfinished.unsubmitted(request.id)).toEqual(request);
    }
  });

  it('are tried one at a time after two deaths, so that the guilty one is found and the others live', () => {
    const unfinished = new UnfinishedRequests();
    const [innocent, guilty, other] = Array.from({ length: 3 }, () => engineRequest({ prompt: [1] })) as [
      EngineRequest,
      EngineRequest,
      EngineRequest,
    ];
    for (const request of [innocent, guilty, other]) unfinished.add(request);
    expect(unfinished.takeSubmittable().length).toBe(3);
    expect(unfinished.die()).toEqual([]);
    expect(unfinished.takeSubmittable().length).toBe(3);
    expect(unfinished.die()).toEqual([]);
    // A newcomer waits while suspects are tried.
    const newcomer = engineRequest({ prompt: [1] });
    unfinished.add(newcomer);
    expect(ids(unfinished.takeSubmittable())).toEqual([innocent.id]);
    expect(unfinished.takeSubmittable()).toEqual([]);
    unfinished.note([token(innocent, 3)]);
    expect(ids(unfinished.takeSubmittable())).toEqual([guilty.id]);
    expect(ids(unfinished.die())).toEqual([guilty.id]);
    // The innocent one was running again and lost its engine once more; the other suspect is tried next.
    expect(ids(unfinished.takeSubmittable())).toEqual([other.id]);
    unfinished.note([token(other, 4)]);
    expect(ids(unfinished.takeSubmittable()).sort()).toEqual([innocent.id, newcomer.id].sort());
  });

  it('are forgiven by a token: deaths count in a row', () => {
    const unfinished = new UnfinishedRequests();
    const request = engineRequest({ prompt: [1] });
    unfinished.add(request);
    for (let life = 0; life < 10; life++) {
      unfinished.takeSubmittable();
      unfinished.note([token(request, life)]);
      expect(unfinished.die()).toEqual([]);
    }
  });

  it('are suspected of nothing where their engine was only put aside', () => {
    const unfinished = new UnfinishedRequests();
    const requests = [engineRequest({ prompt: [1] }), engineRequest({ prompt: [2] })];
    for (const request of requests) unfinished.add(request);
    for (let moves = 0; moves < 5; moves++) {
      expect(unfinished.takeSubmittable().length).toBe(2);
      expect(unfinished.hasSubmitted).toBe(true);
      unfinished.takeBack();
      expect(unfinished.hasSubmitted).toBe(false);
    }
  });

  it('know how long the oldest of them has waited', () => {
    const unfinished = new UnfinishedRequests();
    expect(unfinished.oldestMs).toBeUndefined();
    const [later, earlier] = [5000, 3000].map((enqueuedMs) => engineRequest({ prompt: [1], enqueuedMs })) as [
      EngineRequest,
      EngineRequest,
    ];
    unfinished.add(later);
    unfinished.add(earlier);
    expect(unfinished.oldestMs).toBe(3000);
    unfinished.note([finish(earlier)]);
    expect(unfinished.oldestMs).toBe(5000);
  });

  it('cost the same each, however many there are', () => {
    const each = (count: number) => stepsOf(count) / count;
    // A heap of 64 times as many is six levels deeper. A walk through all of them for each would make it thousands.
    expect(each(64 * 100) - each(100)).toBeLessThan(64);
  });
});

/** How many entries of collections and ages of requests are looked at while so many come, are submitted one by one, give a token and end. */
function stepsOf(count: number): number {
  let steps = 0;
  const ages = (request: EngineRequest): EngineRequest =>
    Object.defineProperty({ ...request }, 'enqueuedMs', {
      get: () => {
        steps++;
        return request.enqueuedMs;
      },
    });
  const requests = Array.from({ length: count }, () => ages(engineRequest({ prompt: [1] })));
  const restore = [new Map().values(), new Set().values()].map((iterator) => {
    const prototype = Object.getPrototypeOf(iterator) as Iterator<unknown>;
    const { next } = prototype;
    prototype.next = function (this: Iterator<unknown>) {
      steps++;
      return next.call(this);
    };
    return () => {
      prototype.next = next;
    };
  });
  try {
    work(requests);
  } finally {
    for (const put of restore) put();
  }
  return steps;
}

function work(requests: readonly EngineRequest[]): void {
  const unfinished = new UnfinishedRequests();
  for (const request of requests) {
    unfinished.add(request);
    if (unfinished.takeSubmittable().length !== 1) throw new Error('it was not submitted');
  }
  for (const request of requests) {
    unfinished.note([token(request, 1)]);
    if (unfinished.takeSubmittable().length !== 0) throw new Error('it was submitted twice');
    if (!unfinished.hasSubmitted || unfinished.oldestMs === undefined) throw new Error('one is forgotten');
  }
  for (const request of requests) unfinished.note([finish(request)]);
}
