import { describe, expect, it } from 'vitest';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { Metrics } from './metrics.ts';

const noTimes = { scheduleMs: 0, computeMs: 1, sampleMs: 0, emitMs: 0 };

/** An engine whose steps and numbers the test decides. */
class StandIn {
  readonly listeners: ((step: object) => void)[] = [];
  preemptions = 0;
  running = 0;
  alive = true;
  answer: () => Promise<void> = async () => {};

  readonly served = {
    name: 'm',
    direct: false,
    engine: {
      monitor: {
        subscribe: ({ step }: { step?: (step: object) => void }) => {
          if (step !== undefined) this.listeners.push(step);
        },
      },
      stats: async () => {
        await this.answer();
        if (!this.alive) throw new Error('the engine is restarting');
        return {
          queues: [{ priority: 1, waiting: 3 }],
          running: Array.from({ length: this.running }),
          blocks: { free: 1, cached: 2, used: 3 },
          counters: { preemptions: this.preemptions },
          requests: { direct: 0 },
        };
      },
    },
  } as unknown as ServedModel;

  step(step: { admitted?: string[]; preempted?: string[] }): void {
    this.preemptions += step.preempted?.length ?? 0;
    for (const listener of this.listeners) listener({ admitted: [], preempted: [], times: noTimes, ...step });
  }
}

function valueIn(text: string, line: string): number {
  const found = text.split('\n').find((one) => one.startsWith(`chairlift_${line} `));
  return Number(found?.split(' ').at(-1));
}

function metricsOf(...engines: StandIn[]): Metrics {
  const pool = { loaded: () => engines.map(({ served }) => served) } as unknown as ModelPool;
  return new Metrics(pool);
}

describe('totals', () => {
  it('have the steps of engines without requests from here, once they are scraped', async () => {
    const engine = new StandIn();
    const metrics = metricsOf(engine);
    await metrics.text();
    engine.step({ preempted: ['a'] });
    engine.step({});
    const text = await metrics.text();
    expect(valueIn(text, 'step_seconds_count{model="m"}')).toBe(2);
    expect(valueIn(text, 'preemptions_total{model="m"}')).toBe(1);
  });

  it('are those of the model where an adapter was asked first', async () => {
    const engine = new StandIn();
    const metrics = metricsOf(engine);
    metrics.subscribe({ name: 'm:adapter', engine: engine.served.engine });
    engine.step({});
    expect(valueIn(await metrics.text(), 'step_seconds_count{model="m"}')).toBe(1);
  });

  it('are the same however many scrape at once', async () => {
    const engine = new StandIn();
    const metrics = metricsOf(engine);
    metrics.subscribe(engine.served);
    metrics.subscribe(engine.served);
    engine.step({ preempted: ['a', 'b'] });
    engine.step({ preempted: ['c'] });
    const texts = await Promise.all([metrics.text(), metrics.text(), metrics.text()]);
    for (const text of texts) expect(valueIn(text, 'preemptions_total{model="m"}')).toBe(3);
    expect(valueIn(await metrics.text(), 'preemptions_total{model="m"}')).toBe(3);
  });

  it('begin at 0 with the model, so that the first of what alerts wait for is a rise', async () => {
    const metrics = metricsOf(new StandIn());
    const text = await metrics.text();
    expect(valueIn(text, 'fallback_requests_total{model="m"}')).toBe(0);
    expect(valueIn(text, 'preemptions_total{model="m"}')).toBe(0);
    metrics.fellBack('m');
    expect(valueIn(await metrics.text(), 'fallback_requests_total{model="m"}')).toBe(1);
  });

  it('never go back: neither when an engine starts anew nor when its model is loaded again', async () => {
    const first = new StandIn();
    const engines = [first];
    const metrics = new Metrics({
      loaded: () => engines.map(({ served }) => served),
    } as unknown as ModelPool);
    const total = async () => valueIn(await metrics.text(), 'preemptions_total{model="m"}');
    metrics.subscribe(first.served);
    first.step({ preempted: ['a', 'b'] });
    expect(await total()).toBe(2);
    first.alive = false;
    expect(await total()).toBe(2);
    first.alive = true;
    first.preemptions = 0;
    expect(await total()).toBe(2);
    first.step({ preempted: ['c'] });
    expect(await total()).toBe(3);
    const second = new StandIn();
    engines.splice(0, 1, second);
    expect(await total()).toBe(3);
    metrics.subscribe(second.served);
    second.step({ preempted: ['d'] });
    expect(await total()).toBe(4);
  });
});

describe('gauges', () => {
  it('are whole in every scrape, though another begins while engines are asked', async () => {
    const [quick, slow] = [new StandIn(), new StandIn()];
    Object.assign(slow.served, { name: 'slow' });
    let open = () => {};
    slow.answer = () =>
      new Promise((resolve) => {
        open = resolve;
      });
    const metrics = metricsOf(quick, slow);
    const first = metrics.text();
    await new Promise((resolve) => setTimeout(resolve, 5));
    const second = metrics.text();
    open();
    for (const text of await Promise.all([first, second])) {
      for (const model of ['m', 'slow']) expect(valueIn(text, `engine_up{model="${model}"}`)).toBe(1);
    }
  });

  it('say which engine does not answer', async () => {
    const engine = new StandIn();
    const metrics = metricsOf(engine);
    expect(valueIn(await metrics.text(), 'blocks{model="m",state="used"}')).toBe(3);
    engine.alive = false;
    const text = await metrics.text();
    expect(valueIn(text, 'engine_up{model="m"}')).toBe(0);
    expect(text).not.toContain('chairlift_blocks{');
  });
});
