// What all viewers are told, four times a second: asked from the engines once, made once, sent to all. Engines are watched
// only while somebody looks.

import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineHandle } from '../../pool/engine-handle.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import { namedEvents } from '../http/sse.ts';
import type { Activity } from '../request/activity.ts';
import type { Admission } from '../request/admission.ts';
import { EngineMonitor } from './engine-monitor.ts';
import type { EndedRequest, LiveSnapshot, LiveTick } from './live-event.ts';
import type { LiveViewer } from './live-viewer.ts';
import type { RequestTraces } from './request-traces.ts';
import type { SlidingPercentiles } from './sliding-percentiles.ts';

const TICK_MS = 250;
/** An engine that takes longer is told of with the next tick. */
const LOOK_MS = 150;
const MOST_ENDED = 200;

interface LiveSources {
  readonly version: string;
  readonly pool: Pick<ModelPool, 'list' | 'loaded' | 'memoryBytes'>;
  readonly activity: Pick<Activity, 'running' | 'draining'>;
  readonly admission: Pick<Admission, 'waiting'>;
  readonly traces: RequestTraces;
  readonly firstToken: SlidingPercentiles;
  readonly betweenTokens: SlidingPercentiles;
  /** Told where nothing can be told; viewers may come again. */
  readonly onProblem: (error: unknown) => void;
}

export class LiveFeed {
  readonly #sources: LiveSources;
  readonly #startedMs = Date.now();
  readonly #viewers = new Set<LiveViewer>();
  readonly #watched = new Map<EngineHandle, EngineMonitor>();
  #ended: EndedRequest[] = [];
  #toldEngines = '';
  #running = false;

  constructor(sources: LiveSources) {
    this.#sources = sources;
  }

  /** Returns what ends it. */
  join(viewer: LiveViewer): () => void {
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
        await this.#look();
        this.#tell();
        await next;
      }
    } finally {
      endEnded();
      for (const watch of this.#watched.values()) watch.end();
      this.#watched.clear();
      this.#ended = [];
      for (const viewer of this.#viewers) viewer.end();
      this.#viewers.clear();
      this.#running = false;
    }
  }

  async #look(): Promise<void> {
    const { pool, traces } = this.#sources;
    const loaded = new Map(pool.loaded().map((served) => [served.engine, served]));
    for (const [engine, watch] of this.#watched) {
      if (loaded.has(engine)) continue;
      watch.end();
      this.#watched.delete(engine);
    }
    for (const [engine, served] of loaded) {
      if (!this.#watched.has(engine)) this.#watched.set(engine, new EngineMonitor(served, traces));
    }
    const looks = [...this.#watched.values()].map((watch) => watch.look());
    await Promise.race([Promise.all(looks), sleep(LOOK_MS, undefined, { ref: false })]);
  }

  #tell(): void {
    const tick = this.#tick();
    const change = framed(tick, 'tick');
    let made: Buffer | undefined;
    const whole = () => {
      made ??= framed(this.#snapshot(tick), 'snapshot');
      return made;
    };
    const engines = [...this.#watched.values()].map(({ name }) => name).join('\n');
    const everyoneAnew = engines !== this.#toldEngines;
    this.#toldEngines = engines;
    const nowMs = performance.now();
    for (const viewer of this.#viewers) viewer.tell(everyoneAnew ? whole() : change, whole, nowMs);
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
      engines: [...this.#watched.values()].map((watch) => watch.tick()),
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
    return {
      version: this.#sources.version,
      startedMs: this.#startedMs,
      tickMs: TICK_MS,
      engines: [...this.#watched.values()].map((watch) => watch.snapshot()),
      tick,
    };
  }
}

function framed(data: LiveTick | LiveSnapshot, event: string): Buffer {
  return Buffer.from(namedEvents.frame(data, event));
}
