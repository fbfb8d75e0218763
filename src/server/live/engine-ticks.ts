// Makes ticks of one engine: asks it for snapshots, one at a time, and joins those that were not sent to viewers yet. A snapshot that
// arrives late counts for the next tick, so that nothing is lost between two of them.

import type { EngineSubscription } from '../../engine/engine-monitor.ts';
import {
  applyChange,
  changedRuns,
  type EngineSnapshot,
  emptySnapshot,
  joinSnapshots,
  type Queue,
  type SnapshotSequence,
  withoutChanges,
} from '../../engine/live/snapshot.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { EngineTick } from './live-event.ts';
import type { RequestTraces } from './request-traces.ts';

export class EngineTicks {
  readonly #served: ServedModel;
  readonly #traces: RequestTraces;
  /** Absent where the engine's steps cannot be seen: its ticks are empty. */
  readonly #subscription: EngineSubscription | undefined;
  #map: Int32Array;
  #pending: EngineSnapshot;
  #polling: Promise<void> | undefined;

  constructor(served: ServedModel, traces: RequestTraces) {
    this.#served = served;
    this.#traces = traces;
    this.#map = new Int32Array(served.blockCount);
    this.#pending = emptySnapshot(served.blockCount);
    const lost = () => this.#take(emptySnapshot(served.blockCount));
    this.#subscription = served.engine.monitor?.subscribe({ lost });
  }

  /** Changes where viewers need a new snapshot: with another model, or another number of blocks. */
  get name(): string {
    return `${this.#served.name} ${this.#served.blockCount}`;
  }

  end(): void {
    this.#subscription?.end();
  }

  poll(): Promise<void> {
    this.#polling ??= this.#subscription
      ?.snapshot()
      .then((snapshot) => this.#take(snapshot))
      .catch(() => {})
      .finally(() => {
        this.#polling = undefined;
      });
    return this.#polling ?? Promise.resolve();
  }

  /** What has changed since the last tick. Starts the next one. */
  tick(): EngineTick {
    const snapshot = this.#pending;
    this.#map = applyChange(this.#map, snapshot);
    this.#pending = withoutChanges(snapshot);
    return {
      model: this.#served.name,
      starts: this.#served.engine.monitor?.starts ?? 1,
      ...snapshot,
      running: snapshot.running.map((sequence) => this.#named(sequence)),
      waiting: snapshot.waiting.map((sequence) => this.#named(sequence)),
      queues: this.#withExpectedWaits(snapshot.queues),
    };
  }

  whole(tick: EngineTick): EngineTick {
    return { ...tick, whole: true, blocks: changedRuns(new Int32Array(this.#map.length), this.#map) };
  }

  #take(snapshot: EngineSnapshot): void {
    this.#pending = joinSnapshots(this.#pending, snapshot);
  }

  /** By the client's id; by the engine's own where the request has just ended. */
  #named<Sequence extends SnapshotSequence>(sequence: Sequence): Sequence {
    const requestId = this.#traces.requestIdOf(sequence.requestId) ?? sequence.requestId;
    return { ...sequence, requestId };
  }

  /** Those of higher priority are admitted first, and so count as ahead. */
  #withExpectedWaits(queues: readonly Queue[]): Queue[] {
    let ahead = 0;
    return queues.map((queue) => {
      ahead += queue.waiting;
      const expectedMs = this.#traces.expectedMs(this.#served.engine, queue.tier, ahead);
      return { ...queue, ...(expectedMs === undefined ? {} : { expectedMs: Math.round(expectedMs) }) };
    });
  }
}
