import { describe, expect, it } from 'vitest';
import type { ModelPool, ModelState } from '../../pool/model-pool.ts';
import { HealthCheck } from './health.ts';
import { Readiness } from './readiness.ts';

class StandIn {
  state: ModelState = 'loaded';
  failure: string | undefined;
  restarting = false;
  proven: boolean | undefined;
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
        { name: 'first', state: this.state, proven: this.proven },
        { name: 'second', state: 'loaded' },
      ],
      loaded: () => (this.state === 'loaded' ? [{ name: 'first', engine, direct: false }] : []),
      load: async () => {
        this.loads++;
        return { ok: false };
      },
      acquire: async () => {
        this.loads++;
        return { ok: false };
      },
    } as unknown as ModelPool;
    const nowMs = () => this.nowMs;
    this.readiness = new Readiness(pool, new HealthCheck(pool, 1000, nowMs));
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

  it('loads nothing: a model that has failed, or waits for its turn, is only looked at', async () => {
    const model = new StandIn();
    model.state = 'failed';
    expect(await model.problem()).toContain('could not be loaded');
    model.nowMs = 100_000;
    expect(await model.problem()).toContain('could not be loaded');
    model.state = 'loading';
    expect(await model.problem()).toBe('first is loading');
    model.state = 'loaded';
    model.failure = 'died five times';
    expect(await model.problem()).toContain('died five times');
    model.failure = undefined;
    expect(await model.problem()).toBeUndefined();
    expect(model.loads).toBe(0);
  });

  it('holds where the model is unloaded while its engine is asked', async () => {
    const model = new StandIn();
    model.restarting = true;
    const asked = model.problem();
    model.state = 'unloaded';
    expect(await asked).toBeUndefined();
  });

  it('holds while a model waits for its turn, or comes back though no probe has seen it before', async () => {
    const waiting = new StandIn();
    waiting.state = 'waiting';
    expect(await waiting.problem()).toBeUndefined();
    const again = new StandIn();
    again.state = 'loading';
    again.proven = true;
    expect(await again.problem()).toBeUndefined();
    expect([waiting.loads, again.loads]).toEqual([0, 0]);
  });
});
