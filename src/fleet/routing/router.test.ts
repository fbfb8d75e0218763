import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { idleLoad } from '../../../test/support/idle-load.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import { TIE_SHARE } from './candidates.ts';
import { costMs } from './expected-finish.ts';
import { NOTHING_FOUND } from './expected-prefix.ts';
import type { Heartbeat, LoadedModelStatus, ModelReport } from './heartbeat.ts';
import { promptKeys } from './prefix-keys.ts';
import { type HeartbeatOutcome, type RoutedRequest, Router } from './router.ts';

const { speeds } = idleLoad;
const idle: LoadedModelStatus = {
  modelKey: 'model',
  ...idleLoad,
};

type Says = Partial<Omit<Heartbeat, 'models' | 'worker'>> & { readonly model?: Partial<ModelReport> };

function hear(router: Router, worker: string, says: Says = {}, nowMs = 0): HeartbeatOutcome {
  const { model, ...rest } = says;
  const models = [{ ...idle, ...model }];
  return router.heartbeat(
    { worker, epoch: 'a', number: 1, draining: false, heard: {}, ...rest, models },
    nowMs,
  );
}

const tokens = Int32Array.from({ length: 512 }, (_, i) => i);
const keys = promptKeys({ modelKey: 'model', salt: ':', tokens });

const request: RoutedRequest = {
  modelKey: 'model',
  keys,
  promptTokens: 512,
  expectedTokens: 100,
  maxTokens: 200,
  priority: 1,
  ageMs: 0,
  conversation: 'one',
};

function routerWith(workers: Readonly<Record<string, Says>>): Router {
  const router = new Router({ gateway: 'here', maxIndexEntries: 1000 });
  for (const [name, says] of Object.entries(workers)) hear(router, name, says);
  return router;
}

function chosen(router: Router, asked: Partial<RoutedRequest> = {}, nowMs = 0): string {
  const decision = router.choose({ ...request, ...asked }, nowMs);
  return decision.kind === 'worker' ? decision.worker : decision.kind;
}

function cache(router: Router, worker: string, blocks: number): void {
  const entered = keys.subarray(0, 2 * blocks);
  router.cacheBatch(worker, 'model', { epoch: 'a', number: 1, entered, left: new Int32Array(0) });
}

describe('the router', () => {
  it('takes the worker that has the prompt cached, among idle ones', () => {
    const router = routerWith({ a: {}, b: {}, c: {} });
    cache(router, 'b', 5);
    cache(router, 'c', 9);
    expect(router.choose(request, 0)).toMatchObject({ worker: 'c', cachedBlocks: 9 });
  });

  it('spreads a hot prefix to a second worker as soon as waiting costs more than computing', () => {
    const router = routerWith({ hot: {}, cold: {} });
    cache(router, 'hot', 10);
    const took: string[] = [];
    for (let n = 0; n < 30; n++) {
      const decision = router.choose({ ...request, conversation: `${n}` }, 0);
      if (decision.kind !== 'worker') throw new Error(decision.kind);
      router.assign(decision.worker, request, decision.prefix);
      took.push(decision.worker);
    }
    const first = took.indexOf('cold');
    expect(first).toBeGreaterThan(0);
    expect(took.filter((name) => name === 'hot').length).toBeGreaterThan(10);
    expect(took.filter((name) => name === 'cold').length).toBeGreaterThan(5);
  });

  it('leaves a worker that is busy for an idle one, however much is cached', () => {
    const router = routerWith({
      busy: { model: { queuedTokens: [0, 5000, 0], waiting: [0, 4, 0] } },
      idle: {},
    });
    cache(router, 'busy', 15);
    expect(chosen(router)).toBe('idle');
  });

  it('sees only what is really ahead: HIGH passes a queue of LOW, unless that has waited longer than aging allows', () => {
    const low = { queuedTokens: [0, 0, 9000], waiting: [0, 0, 9] } as const;
    const high = { queuedTokens: [1000, 0, 0], waiting: [2, 0, 0] } as const;
    const fresh = routerWith({ low: { model: low }, high: { model: high } });
    expect(chosen(fresh, { priority: 0 })).toBe('low');
    expect(chosen(fresh, { priority: 2 })).toBe('high');
    const aged = routerWith({ low: { model: { ...low, oldestMs: [0, 0, 60_000] } }, high: { model: high } });
    expect(chosen(aged, { priority: 0 })).toBe('high');
  });

  it('avoids a worker that has no blocks to give, and one where all places are taken', () => {
    const full = { running: 1, freeBlocks: 2 };
    expect(chosen(routerWith({ full: { model: full }, roomy: { model: { running: 1 } } }))).toBe('roomy');
    const crowded = { running: 16, waiting: [0, 3, 0] } as const;
    expect(chosen(routerWith({ crowded: { model: crowded }, roomy: { model: { running: 13 } } }))).toBe(
      'roomy',
    );
  });

  it('prefers the faster of two idle workers', () => {
    const slow = { speeds: { ...speeds, promptTokenMs: 9, stepBaseMs: 90 } };
    expect(chosen(routerWith({ slow: { model: slow }, fast: {} }))).toBe('fast');
  });

  it('agrees with other gateways on idle workers, whatever order they were heard in', () => {
    const names = Array.from({ length: 100 }, (_, n) => `worker-${n}`);
    const [one, other] = [
      new Router({ gateway: 'one', maxIndexEntries: 1000 }),
      new Router({ gateway: 'other', maxIndexEntries: 1000 }),
    ];
    for (const name of names) hear(one, name);
    for (const name of names.toReversed()) hear(other, name);
    const conversations = Array.from({ length: 200 }, (_, n) => `conversation ${n}`);
    const choices = conversations.map((conversation) => chosen(one, { conversation }));
    expect(conversations.map((conversation) => chosen(other, { conversation }))).toEqual(choices);
    expect(new Set(choices).size).toBeGreaterThan(60);
  });

  it('counts what it has sent until a heartbeat contains it, or it ends', () => {
    const router = routerWith({ a: {}, b: {} });
    const first = chosen(router);
    const other = first === 'a' ? 'b' : 'a';
    const assignment = router.assign(first, request, NOTHING_FOUND);
    expect(assignment).toMatchObject({ worker: first, number: 1, tokens: 512 });
    expect(chosen(router)).toBe(other);
    hear(router, first, { number: 2, heard: { here: 0, elsewhere: 9 } });
    expect(chosen(router), 'not contained yet').toBe(other);
    hear(router, first, { number: 3, heard: { here: 1 } });
    expect(chosen(router)).toBe(first);
    const second = router.assign(first, request, NOTHING_FOUND);
    expect(chosen(router)).toBe(other);
    if (second !== undefined) router.ended(second);
    expect(chosen(router)).toBe(first);
  });

  it('does not heed a heartbeat that is older than the last', () => {
    const router = routerWith({ a: { number: 5, draining: true } });
    expect(hear(router, 'a', { number: 4, draining: false })).toBe('old');
    expect(chosen(router)).toBe('none');
  });

  it('forgets what it knew of a worker that has begun anew', () => {
    const router = routerWith({ a: {}, b: {} });
    cache(router, 'a', 12);
    expect(chosen(router)).toBe('a');
    expect(hear(router, 'a', { epoch: 'b', number: 1, model: { running: 2 } })).toBe('restarted');
    expect(chosen(router)).toBe('b');
    expect(router.cacheBatch('z', 'model', { epoch: 'a', number: 1, entered: keys, left: keys })).toBe(
      'unknown',
    );
  });

  it('refuses where even the best would wait too long, and says when to come back', () => {
    const router = new Router({ gateway: 'here', maxIndexEntries: 1000, maxWaitMs: [10_000, 10_000, 1e9] });
    for (const name of ['a', 'b']) {
      hear(router, name, { model: { queuedTokens: [0, 5000, 0], waiting: [0, 10, 0] } });
    }
    const decision = router.choose(request, 0);
    if (decision.kind !== 'refused') throw new Error(decision.kind);
    expect(decision.expectedWaitMs).toBeGreaterThan(15_000);
    expect(decision.retryAfterSeconds).toBe(Math.ceil((decision.expectedWaitMs - 10_000) / 1000));
    expect(chosen(router, { priority: 0 }), 'NORMAL is not ahead of HIGH').not.toBe('refused');
    expect(chosen(router, { priority: 2 }), 'LOW may wait').not.toBe('refused');
  });

  it('tells a model that nobody has from a request that nobody could hold', () => {
    const router = routerWith({ small: { model: { totalBlocks: 10, freeBlocks: 10 } } });
    expect(chosen(router, { modelKey: 'other' })).toBe('none');
    expect(chosen(router)).toBe('too-large');
    hear(router, 'large', { model: { running: 12 } });
    expect(chosen(router)).toBe('large');
  });

  it('finds the one worker that is large enough among many small ones that are less busy', () => {
    const router = new Router({ gateway: 'here', maxIndexEntries: 1000 });
    for (let n = 0; n < 100; n++) hear(router, `small-${n}`, { model: { totalBlocks: 10, freeBlocks: 10 } });
    hear(router, 'large', { model: { running: 12, waiting: [0, 9, 0], queuedTokens: [0, 900, 0] } });
    expect(chosen(router)).toBe('large');
  });

  it('never takes a worker that is dead, draining, excluded or without the model, whatever happens', () => {
    const state = fc.record({
      heardMs: fc.nat(3000),
      draining: fc.boolean(),
      isExcluded: fc.boolean(),
      isRemoved: fc.boolean(),
      hasModel: fc.boolean(),
      queued: fc.nat(3000),
      cached: fc.nat(15),
    });
    const priority = fc.constantFrom<Priority>(0, 1, 2);
    fc.assert(
      fc.property(fc.array(state, { maxLength: 40 }), priority, (states, asked) => {
        const router = new Router({ gateway: 'here', maxIndexEntries: 1000, maxWaitMs: [1e9, 1e9, 1e9] });
        states.forEach(({ heardMs, draining, isRemoved, hasModel, queued, cached }, n) => {
          const model = { modelKey: hasModel ? 'model' : 'other', queuedTokens: [0, queued, 0] } as const;
          hear(router, `${n}`, { draining, model }, heardMs);
          if (hasModel) cache(router, `${n}`, cached);
          if (isRemoved) router.remove(`${n}`);
        });
        const able = states.map(
          (one) => !one.draining && !one.isExcluded && !one.isRemoved && one.hasModel && one.heardMs >= 1500,
        );
        const excluded = new Set(states.flatMap(({ isExcluded }, n) => (isExcluded ? [`${n}`] : [])));
        const decision = router.choose({ ...request, priority: asked, excluded }, 3000);
        if (decision.kind === 'worker') expect(able[Number(decision.worker)]).toBe(true);
        else expect([decision.kind, able.includes(true)]).toEqual(['none', false]);
      }),
    );
  });

  it('takes the very worker that a look at all of them would take, up to what counts as a tie', () => {
    const state = fc.record({ queued: fc.nat(4000), running: fc.nat(14), cached: fc.nat(15) });
    fc.assert(
      fc.property(fc.array(state, { minLength: 1, maxLength: 60 }), (states) => {
        const router = new Router({ gateway: 'here', maxIndexEntries: 1000, maxWaitMs: [1e9, 1e9, 1e9] });
        const costs = states.map(({ queued, running, cached }, n) => {
          const alone = new Router({ gateway: 'here', maxIndexEntries: 1000, maxWaitMs: [1e9, 1e9, 1e9] });
          for (const one of [router, alone]) {
            hear(one, `${n}`, { model: { queuedTokens: [0, queued, 0], running } });
            cache(one, `${n}`, cached);
          }
          const only = alone.choose(request, 0);
          return only.kind === 'worker' ? costMs(only.expected) : Number.NaN;
        });
        const decision = router.choose(request, 0);
        if (decision.kind !== 'worker') throw new Error(decision.kind);
        expect(costMs(decision.expected)).toBeLessThanOrEqual((1 + TIE_SHARE) * Math.min(...costs) + 1e-6);
      }),
      { numRuns: 60 },
    );
  });

  it('lists workers that are silent, and forgets those that are removed', () => {
    const router = new Router({ gateway: 'here', maxIndexEntries: 1000 });
    hear(router, 'old', {}, 0);
    hear(router, 'new', {}, 2000);
    expect(router.silent(2500)).toEqual(['old']);
    router.remove('old');
    expect([...router.workers]).toEqual(['new']);
    expect(router.assign('old', request, NOTHING_FOUND)).toBeUndefined();
    router.remove('new');
    expect(router.indexOf('model')).toBeUndefined();
  });
});
