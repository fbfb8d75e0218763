// Makes ticks of one engine: asks it for snapshots, one at a time, and gathers what was not sent to viewers yet. A snapshot
// that arrives late counts for the next tick, so that nothing is lost between two of them.

import type { EngineSubscription } from '../../engine/engine-monitor.ts';
import { applyRuns, changedRuns, wholeRuns } from '../../engine/live/block-runs.ts';
import type { EngineView, RiderView, WaitingView } from '../../engine/live/engine-view.ts';
import type { Priority } from '../../engine/request.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { TIERS, type Tier } from '../../store/key-record.ts';
import type { EngineSnapshot, EngineTick, LiveQueue, LiveStep, Rider, WaitingRequest } from './live-event.ts';
import type { RequestTraces } from './request-traces.ts';

const MOST_STEPS = 64;

type Present = Pick<
  EngineView,
  'riders' | 'waiting' | 'queues' | 'blockCounts' | 'preemptions' | 'evictions'
>;

const nothing: Present = {
  riders: [],
  waiting: [],
  queues: [],
  blockCounts: { limit: 0, held: 0, used: 0, cached: 0, shared: 0 },
  preemptions: 0,
  evictions: 0,
};

export class EngineTicks {
  readonly #served: ServedModel;
  readonly #traces: RequestTraces;
  /** Absent where the engine's steps cannot be seen: its ticks are empty. */
  readonly #subscription: EngineSubscription | undefined;
  /** The state of each block now, and as of the last tick. */
  #map: Int32Array;
  readonly #sent: Int32Array;
  #polling: Promise<void> | undefined;
  #present: Present = nothing;
  #steps = 0;
  #promptTokens = 0;
  #generatedTokens = 0;
  #timeline: LiveStep[] = [];

  constructor(served: ServedModel, traces: RequestTraces) {
    this.#served = served;
    this.#traces = traces;
    this.#map = new Int32Array(served.blockCount);
    this.#sent = new Int32Array(served.blockCount);
    this.#subscription = served.engine.monitor?.subscribe({ lost: () => this.#forget() });
  }

  /** Changes where viewers need a new snapshot: with another model, or another number of blocks. */
  get name(): string {
    return `${this.#served.name} ${this.#served.blockCount}`;
  }

  end(): void {
    this.#subscription?.end();
  }

  /** Resolves when the engine has answered, or cannot. */
  poll(): Promise<void> {
    this.#polling ??= this.#subscription
      ?.snapshot()
      .then((view) => this.#take(view))
      .catch(() => {})
      .finally(() => {
        this.#polling = undefined;
      });
    return this.#polling ?? Promise.resolve();
  }

  /** What has changed since the last tick. Starts the next one. */
  tick(): EngineTick {
    const { riders, waiting, queues, blockCounts, preemptions, evictions } = this.#present;
    const blocks = changedRuns(this.#sent, this.#map);
    applyRuns(this.#sent, blocks);
    const tick: EngineTick = {
      model: this.#served.name,
      starts: this.#served.engine.monitor?.starts ?? 1,
      steps: this.#steps,
      promptTokens: this.#promptTokens,
      generatedTokens: this.#generatedTokens,
      timeline: this.#timeline,
      riders: riders.map((rider) => this.#rider(rider)),
      queues: this.#queues(queues),
      waiting: waiting.map((one) => this.#waiting(one)),
      blocks,
      blockCounts,
      preemptions,
      evictions,
    };
    this.#timeline = [];
    this.#steps = 0;
    this.#promptTokens = 0;
    this.#generatedTokens = 0;
    return tick;
  }

  /** The blocks as of the last tick. */
  snapshot(): EngineSnapshot {
    const { name, blockCount } = this.#served;
    return { model: name, blockCount, blocks: wholeRuns(this.#sent) };
  }

  #take(view: EngineView): void {
    if (view.first) this.#map = new Int32Array(this.#map.length);
    applyRuns(this.#map, view.blocks);
    this.#present = view;
    this.#steps += view.steps;
    this.#promptTokens += view.promptTokens;
    this.#generatedTokens += view.generatedTokens;
    const steps = view.timeline.map((step) => ({
      ...step,
      atMs: hundredths(step.atMs),
      ms: hundredths(step.ms),
    }));
    this.#timeline = [...this.#timeline, ...steps].slice(-MOST_STEPS);
  }

  /** The engine is gone, and its blocks with it. */
  #forget(): void {
    this.#map = new Int32Array(this.#map.length);
    this.#present = nothing;
  }

  #rider({ seat, id, priority, phase, ageMs, ...counts }: RiderView): Rider {
    const { promptTokens, cachedTokens, tokens, computed, blocks } = counts;
    return {
      seat,
      requestId: this.#requestId(id),
      tier: tierOf(priority),
      phase,
      promptTokens,
      cachedTokens,
      tokens,
      computed,
      blocks,
      ageMs: Math.round(ageMs),
    };
  }

  #waiting({ id, priority, tokens, ageMs, why }: WaitingView): WaitingRequest {
    return { requestId: this.#requestId(id), tier: tierOf(priority), tokens, ageMs: Math.round(ageMs), why };
  }

  /** Those of higher priority are admitted first, and so count as ahead. */
  #queues(queues: EngineView['queues']): LiveQueue[] {
    let ahead = 0;
    return queues.map(({ priority, waiting, oldestMs }) => {
      const tier = tierOf(priority);
      ahead += waiting;
      const expectedMs = this.#traces.expectedMs(this.#served.engine, tier, ahead);
      return {
        tier,
        waiting,
        oldestMs: Math.round(oldestMs),
        ...(expectedMs === undefined ? {} : { expectedMs: Math.round(expectedMs) }),
      };
    });
  }

  /** The client's id; the engine's own for a request that has just ended. */
  #requestId(id: string): string {
    return this.#traces.requestIdOf(id) ?? id;
  }
}

function tierOf(priority: Priority): Tier {
  return TIERS[priority] as Tier;
}

function hundredths(ms: number): number {
  return Math.round(100 * ms) / 100;
}
