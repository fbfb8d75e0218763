// Publishes what the engines do, four times a second: they are asked once, and every viewer is sent the same bytes. Engines
// are monitored only while a viewer is subscribed.

import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineClient } from '../../engine/engine-client.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import { namedEvents } from '../http/sse.ts';
import type { Activity } from '../request/activity.ts';
import type { Admission } from '../request/admission.ts';
import { EngineTicks } from './engine-ticks.ts';
import type { EndedRequest, LiveSnapshot, LiveTick } from './live-event.ts';
import type { LiveViewer } from './live-viewer.ts';
import type { SlidingPercentiles } from './recent-measurements.ts';
import type { RequestTraces } from './request-traces.ts';

const TICK_MS = 250;
/** A snapshot that takes longer is sent with the next tick. */
const POLL_TIMEOUT_MS = 150;
const MOST_ENDED = 200;

interface LiveSources {
  readonly version: string;
  readonly pool: Pick<ModelPool, 'list' | 'loaded' | 'memoryBytes'>;
  readonly activity: Pick<Activity, 'running' | 'draining'>;
  readonly admission: Pick<Admission, 'waiting'>;
  readonly traces: RequestTraces;
  readonly firstToken: SlidingPercentiles;
  readonly betweenTokens: SlidingPercentiles;
  readonly onProblem: (error: unknown) => void;
}

export class LiveFeed {
  readonly #sources: LiveSources;
  readonly #startedMs = Date.now();
  readonly #viewers = new Set<LiveViewer>();
  readonly #engines = new Map<EngineClient, EngineTicks>();
  #ended: EndedRequest[] = [];
  #publishedEngines = '';
  #running = false;

  constructor(sources: LiveSources) {
    this.#sources = sources;
  }

  subscribe(viewer: LiveViewer): () => void {
    this.#viewers.add(viewer);
    if (!this.#running) void this.#run().catch(this.#sources.onProblem);
    return () => this.#viewers.delete(viewer);
  }

  async #run(): Promise<void> {
    this.#running = true;
    const endEnded = this.#sources.traces.onEnded((ended) => {
      this.#ended.push(ended);
      if (this.#ended.length > MOST_ENDED) this.#ended.shift();
    });
    try {
      while (this.#viewers.size > 0 && !this.#sources.activity.draining) {
        const next = sleep(TICK_MS, undefined, { ref: false });
        await this.#poll();
        this.#publish();
        await next;
      }
    } finally {
      endEnded();
      for (const engine of this.#engines.values()) engine.end();
      this.#engines.clear();
      this.#ended = [];
      for (const viewer of this.#viewers) viewer.end();
      this.#viewers.clear();
      this.#running = false;
    }
  }

  async #poll(): Promise<void> {
    const { pool, traces } = this.#sources;
    const loaded = new Map(pool.loaded().map((served) => [served.engine, served]));
    for (const [engine, ticks] of this.#engines) {
      if (loaded.has(engine)) continue;
      ticks.end();
      this.#engines.delete(engine);
    }
    for (const [engine, served] of loaded) {
      if (!this.#engines.has(engine)) this.#engines.set(engine, new EngineTicks(served, traces));
    }
    const polls = [...this.#engines.values()].map((ticks) => ticks.poll());
    await Promise.race([Promise.all(polls), sleep(POLL_TIMEOUT_MS, undefined, { ref: false })]);
  }

  #publish(): void {
    const tick = this.#tick();
    const change = framed(tick, 'tick');
    let snapshot: Buffer | undefined;
    const whole = () => {
      snapshot ??= framed(this.#snapshot(tick), 'snapshot');
      return snapshot;
    };
    const engines = [...this.#engines.values()].map(({ name }) => name).join('\n');
    const hasNewEngines = engines !== this.#publishedEngines;
    this.#publishedEngines = engines;
    const nowMs = performance.now();
    for (const viewer of this.#viewers) viewer.send(hasNewEngines ? whole() : change, whole, nowMs);
  }

  #tick(): LiveTick {
    const { pool, activity, admission, firstToken, betweenTokens } = this.#sources;
    const nowMs = performance.now();
    const [first, between] = [firstToken.read(nowMs), betweenTokens.read(nowMs)];
    const models = pool.list();
    const queued = admission.waiting;
    const ended = this.#ended;
    this.#ended = [];
    return {
      atMs: Date.now(),
      models,
      engines: [...this.#engines.values()].map((ticks) => ticks.tick()),
      requests: { running: Math.max(0, activity.running - queued), queued },
      ...(first === undefined ? {} : { firstToken: first }),
      ...(between === undefined ? {} : { betweenTokens: between }),
      ended,
      memory: {
        usedBytes: models.reduce((sum, { memoryBytes = 0 }) => sum + memoryBytes, 0),
        allowedBytes: pool.memoryBytes,
      },
    };
  }

  #snapshot(tick: LiveTick): LiveSnapshot {
    const { version } = this.#sources;
    const monitored = [...this.#engines.values()];
    const engines = tick.engines.map((engine, at) => monitored[at]?.whole(engine) ?? engine);
    return { version, startedMs: this.#startedMs, tickMs: TICK_MS, ...tick, engines };
  }
}

function framed(data: LiveTick | LiveSnapshot, event: string): Buffer {
  return Buffer.from(namedEvents.frame(data, event));
}
