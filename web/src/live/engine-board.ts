// What is known of one engine now.

import type { EngineSnapshot, EngineTick, Rider } from '../../../src/server/live/live-event.ts';
import { BlockMap, FIRST_SEAT } from './block-map.ts';
import { RideLog } from './ride-log.ts';

export class EngineBoard {
  readonly model: string;
  readonly blocks = new BlockMap();
  readonly log = new RideLog();
  #tick: EngineTick | undefined;

  constructor(model: string) {
    this.model = model;
  }

  /** Absent until its first tick. */
  get tick(): EngineTick | undefined {
    return this.#tick;
  }

  begin({ blockCount, blocks }: EngineSnapshot): void {
    this.blocks.reset(blockCount, blocks);
  }

  /** Whether another engine process tells it than the last time. */
  take(tick: EngineTick, nowMs: number): boolean {
    const restarted = this.#tick !== undefined && tick.starts > this.#tick.starts;
    if (restarted) this.log.clear(nowMs);
    this.#tick = tick;
    this.blocks.change(tick.blocks);
    this.log.add(tick.timeline, tick.riders, nowMs);
    return restarted;
  }

  /** Who holds a block alone. */
  riderOf(block: number): Rider | undefined {
    const seat = this.blocks.stateOf(block) - FIRST_SEAT;
    return this.#tick?.riders.find((rider) => rider.seat === seat);
  }
}
