import { describe, expect, it } from 'vitest';
import { engineRequest } from '../../test/support/engine-requests.ts';
import type { EngineRequest, RequestEvent } from '../engine/request.ts';
import { UnfinishedRequests } from './unfinished-requests.ts';

const token = ({ id }: EngineRequest, choice: number, value: number): RequestEvent => ({
  kind: 'token',
  id,
  choice,
  token: value,
});

const finish = ({ id }: EngineRequest, choice: number): RequestEvent => ({
  kind: 'finish',
  id,
  choice,
  reason: 'stop',
  promptTokens: 1,
  cachedTokens: 0,
  generatedTokens: 1,
});

const ids = (requests: readonly EngineRequest[]) => requests.map(({ id }) => id);

describe('unfinished requests', () => {
  it('go on with the tokens they had, choice by choice', () => {
    const unfinished = new UnfinishedRequests();
    const request = engineRequest({ prompt: [1, 2], choices: 3 });
    unfinished.add(request);
    expect(unfinished.takeSubmittable()).toEqual([request]);
    expect(unfinished.takeSubmittable()).toEqual([]);
    unfinished.note([
      token(request, 0, 5),
      token(request, 1, 6),
      token(request, 2, 7),
      finish(request, 1),
      token(request, 0, 8),
    ]);
    expect(unfinished.die()).toEqual([]);
    const [again] = unfinished.takeSubmittable();
    expect(again?.resumed).toEqual([
      { choice: 0, tokens: [5, 8] },
      { choice: 2, tokens: [7] },
    ]);
    unfinished.note([finish(request, 0), finish(request, 2)]);
    expect(unfinished.size).toBe(0);
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
    unfinished.note([token(innocent, 0, 3)]);
    expect(ids(unfinished.takeSubmittable())).toEqual([guilty.id]);
    expect(ids(unfinished.die())).toEqual([guilty.id]);
    // The innocent one was running again and lost its engine once more; the other suspect is tried next.
    expect(ids(unfinished.takeSubmittable())).toEqual([other.id]);
    unfinished.note([token(other, 0, 4)]);
    expect(ids(unfinished.takeSubmittable()).sort()).toEqual([innocent.id, newcomer.id].sort());
  });

  it('are forgiven by a token: deaths count in a row', () => {
    const unfinished = new UnfinishedRequests();
    const request = engineRequest({ prompt: [1] });
    unfinished.add(request);
    for (let life = 0; life < 10; life++) {
      unfinished.takeSubmittable();
      unfinished.note([token(request, 0, life)]);
      expect(unfinished.die()).toEqual([]);
    }
  });
});
