import { describe, expect, it } from 'vitest';
import type { ModelPool, ModelState } from '../pool/model-pool.ts';
import { HealthCheck } from './health.ts';
import { Readiness } from './readiness.ts';

class StandIn {
  state: ModelState = 'loaded';
  failure: string | undefined;
  restarting = false;
  loads = 0;
  nowMs = 0;
  readonly readiness: Readiness;

  constructor() {
    const idle = { queues: [], steps: 1, running: [] };
    const engine = {
      stats: async () => (this.restarting ? Promise.reject(new Error('the engine is restarting')) : idle),
    };
    Object.defineProperty(engine, 'failure', { get: () => this.failure });
    const pool = {
      list: () => [
        { name: 'first', state: this.state },
        { name: 'second', state: 'loaded' },
      ],
      loaded: () => (this.state === 'loaded' ? [{ name: 'first', engine, direct: false }] : []),
      load: async () => {
        this.loads++;
        return { ok: false };
      },
    } as unknown as ModelPool;
    const nowMs = () => this.nowMs;
    this.readiness = new Readiness(pool, new HealthCheck(pool, 1000, nowMs), nowMs);
  }

  problem(): Promise<string | undefined> {
    return this.readiness.problem();
  }
}

describe('readiness', () => {
  it('is lost while the engine of the default model restarts, though others are loaded', async () => {
    const model = new StandIn();
    expect(await model.problem()).toBeUndefined();
    model.restarting = true;
    expect(await model.problem()).toBe('first: the engine is restarting');
    model.restarting = false;
    expect(await model.problem()).toBeUndefined();
  });

  it('waits for the first load, but holds while a model that has served is loaded again', async () => {
    const model = new StandIn();
    model.state = 'loading';
    expect(await model.problem()).toBe('first is loading');
    model.state = 'loaded';
    expect(await model.problem()).toBeUndefined();
    model.state = 'unloaded';
    expect(await model.problem()).toBeUndefined();
    model.state = 'loading';
    expect(await model.problem()).toBeUndefined();
  });

  it('comes back by itself: a model that has failed is tried again now and then', async () => {
    const model = new StandIn();
    model.state = 'failed';
    expect(await model.problem()).toContain('could not be loaded');
    await model.problem();
    expect(model.loads).toBe(1);
    model.state = 'loading';
    expect(await model.problem()).toBe('first is loading');
    model.state = 'loaded';
    model.failure = 'died five times';
    model.nowMs = 10_000;
    expect(await model.problem()).toContain('died five times');
    expect(model.loads).toBe(2);
    model.failure = undefined;
    expect(await model.problem()).toBeUndefined();
  });
});
