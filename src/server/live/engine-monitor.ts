// One engine under watch: asks it for what it does, once at a time, and keeps what viewers have not been told yet. Whatever
// comes late counts for the next tick, so that nothing is lost between two of them.

import { applyRuns, changedRuns, wholeRuns } from '../../engine/live/block-runs.ts';
import type { EngineView, RiderView, WaitingView } from '../../engine/live/engine-view.ts';
import type { Priority } from '../../engine/sequence.ts';
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

export class EngineMonitor {
  readonly #served: ServedModel;
  readonly #traces: RequestTraces;
  readonly #endLost: () => void;
  /** As it is, and as viewers know it. */
  #map: Int32Array;
  readonly #told: Int32Array;
  #looking: Promise<void> | undefined;
  #present: Present = nothing;
  #steps = 0;
  #promptTokens = 0;
  #generatedTokens = 0;
  #timeline: LiveStep[] = [];

  constructor(served: ServedModel, traces: RequestTraces) {
    this.#served = served;
    this.#traces = traces;
    this.#map = new Int32Array(served.blockCount);
    this.#told = new Int32Array(served.blockCount);
    this.#endLost = served.engine.onLost(() => this.#forget());
  }

  /** What it is told apart by. */
  get name(): string {
    return `${this.#served.name} ${this.#served.blockCount}`;
  }

  end(): void {
    this.#endLost();
    this.#served.engine.lookAway();
  }

  /** Resolves when the engine has answered, or is not there. */
  look(): Promise<void> {
    this.#looking ??= this.#served.engine
      .look()
      .then((view) => this.#take(view))
      .catch(() => {})
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  /** What has changed since the last tick. */
  tick(): EngineTick {
    const { riders, waiting, queues, blockCounts, preemptions, evictions } = this.#present;
    const blocks = changedRuns(this.#told, this.#map);
    applyRuns(this.#told, blocks);
    const tick: EngineTick = {
      model: this.#served.name,
      starts: this.#served.engine.starts,
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

  /** As of the last tick. */
  snapshot(): EngineSnapshot {
    const { name, blockCount } = this.#served;
    return { model: name, blockCount, blocks: wholeRuns(this.#told) };
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

  /** The engine is gone with all that it held. */
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

  /** More urgent ones go first. */
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

  /** Of one that has just ended, the engine's own. */
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
