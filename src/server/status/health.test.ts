import { describe, expect, it, vi } from 'vitest';
import type { EngineLoad } from '../../engine/engine-client.ts';
import type { ModelPool, ModelState } from '../../pool/model-pool.ts';
import { HealthCheck, Readiness } from './health.ts';
import { Metrics } from './metrics.ts';

interface StandInEngine {
  stats: () => Promise<{ steps: number; running: object[] }>;
  failure?: string;
  direct?: boolean;
}

/** A pool with one engine that answers as the test says. */
function checkOf({ stats, failure, direct = false }: StandInEngine, nowMs: () => number): HealthCheck {
  const engine = { failure, stats: async () => ({ queues: [], ...(await stats()) }) };
  const pool = { loaded: () => [{ name: 'm', engine, direct }] } as unknown as ModelPool;
  return new HealthCheck(pool, 1000, nowMs);
}

const idle = async () => ({ steps: 5, running: [] });

describe('an engine', () => {
  it('is stalled where sequences run and no step ends, and well with the next step', async () => {
    let nowMs = 0;
    let steps = 5;
    let running = [{}];
    const check = checkOf({ stats: async () => ({ steps, running }) }, () => nowMs);
    const state = async () => (await check.check())[0]?.state;
    expect(await state()).toBe('ok');
    nowMs = 999;
    expect(await state()).toBe('ok');
    nowMs = 1000;
    expect((await check.check())[0]).toMatchObject({
      state: 'stalled',
      problem: expect.stringContaining('no step'),
    });
    steps = 6;
    expect(await state()).toBe('ok');
    running = [];
    nowMs = 50_000;
    expect(await state()).toBe('ok');
  });

  it('is not blamed for having been idle', async () => {
    let nowMs = 0;
    let running: object[] = [];
    const check = checkOf({ stats: async () => ({ steps: 5, running }) }, () => nowMs);
    await check.check();
    nowMs = 60_000;
    running = [{}];
    expect(await check.check()).toMatchObject([{ state: 'ok' }]);
  });

  it('is restarting where it cannot be asked', async () => {
    const problem = 'the engine is restarting';
    const check = checkOf({ stats: () => Promise.reject(new Error(problem)) }, () => 0);
    expect(await check.check()).toEqual([{ model: 'm', state: 'restarting', problem }]);
    expect(await check.checkModel('m')).toMatchObject({ state: 'restarting' });
    expect(await check.checkModel('other')).toBeUndefined();
  });

  it('is silent where it does not answer, at the second look, and is looked at before a probe gives up', async () => {
    vi.useFakeTimers();
    try {
      let answers: (stats: { steps: number; running: object[] }) => void = () => {};
      const stats = () => new Promise<{ steps: number; running: object[] }>((resolve) => (answers = resolve));
      const check = checkOf({ stats }, () => Date.now());
      const look = async () => {
        const answer = check.check();
        await vi.advanceTimersByTimeAsync(900);
        return answer;
      };
      // A single answer may be late on a machine with much else to do.
      expect(await look()).toMatchObject([{ state: 'ok' }]);
      answers({ steps: 5, running: [] });
      await vi.advanceTimersByTimeAsync(5000);
      expect(await look()).toMatchObject([{ state: 'ok' }]);
      await vi.advanceTimersByTimeAsync(2000);
      expect(await look()).toMatchObject([{ state: 'silent' }]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('has failed where it has given up, and says so where it serves without batching', async () => {
    const failed = checkOf({ stats: idle, failure: 'died five times' }, () => 0);
    expect(await failed.check()).toEqual([{ model: 'm', state: 'failed', problem: 'died five times' }]);
    expect(await checkOf({ stats: idle, direct: true }, () => 0).check()).toMatchObject([
      { state: 'direct' },
    ]);
  });
});

describe('the engines of a fleet', () => {
  const fleet = (load: () => EngineLoad | undefined) => {
    const engine = { stats: () => expect.unreachable('a worker was asked'), knownLoad: load };
    const pool = {
      list: () => [{ name: 'm', state: 'loaded' }],
      loaded: () => [{ name: 'm', engine, direct: false }],
    } as unknown as ModelPool;
    return { pool, check: new HealthCheck(pool, 1000, () => 0) };
  };
  const busy: EngineLoad = {
    queues: [{ priority: 1, waiting: 2 }],
    running: 7,
    blocks: { free: 1, cached: 2, used: 3 },
  };

  it('are well where one worker serves, and nobody is asked', async () => {
    const { pool, check } = fleet(() => busy);
    expect(await check.check()).toEqual([{ model: 'm', state: 'ok', running: 7 }]);
    expect(await new Readiness(pool, check).problem()).toBeUndefined();
    const text = await new Metrics(pool).text();
    expect(text).toContain('chairlift_engine_up{model="m"} 1');
    expect(text).toContain('chairlift_running_sequences{model="m"} 7');
  });

  it('are not ready where no worker serves', async () => {
    const { pool, check } = fleet(() => undefined);
    expect(await new Readiness(pool, check).problem()).toBe('m: no worker that serves it is known');
  });
});

class CheckedModel {
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
    const model = new CheckedModel();
    expect(await model.problem()).toBeUndefined();
    model.restarting = true;
    expect(await model.problem()).toBe('first: the engine is restarting');
    model.restarting = false;
    expect(await model.problem()).toBeUndefined();
  });

  it('waits for the first load, but holds while a model that has served is loaded again', async () => {
    const model = new CheckedModel();
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
    const model = new CheckedModel();
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
    const model = new CheckedModel();
    model.restarting = true;
    const asked = model.problem();
    model.state = 'unloaded';
    expect(await asked).toBeUndefined();
  });

  it('holds while a model waits for its turn, or comes back though no probe has seen it before', async () => {
    const waiting = new CheckedModel();
    waiting.state = 'waiting';
    expect(await waiting.problem()).toBeUndefined();
    const again = new CheckedModel();
    again.state = 'loading';
    again.proven = true;
    expect(await again.problem()).toBeUndefined();
    expect([waiting.loads, again.loads]).toEqual([0, 0]);
  });
});
