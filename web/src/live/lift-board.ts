// Everything the live feed has sent, as far back as it is shown.

import { FIRST_LANE, type RunningSequence } from '../../../src/engine/live/snapshot.ts';
import type {
  EndedRequest,
  EngineTick,
  LiveSnapshot,
  LiveTick,
} from '../../../src/server/live/live-event.ts';
import { Observable } from '../observable.ts';
import { BlockMap } from './block-map.ts';
import { Hour } from './hour.ts';
import { LaneLog } from './lane-log.ts';
import { Series } from './series.ts';

const ENDED_KEPT = 50;
const NOTICES_KEPT = 8;

export interface Notice {
  readonly atMs: number;
  readonly text: string;
}

export class EngineBoard {
  readonly model: string;
  readonly blocks = new BlockMap();
  readonly log = new LaneLog();
  tick: EngineTick | undefined;

  constructor(model: string) {
    this.model = model;
  }

  /** Returns whether the engine process is another one than before. */
  take(tick: EngineTick, nowMs: number): boolean {
    const restarted = this.tick !== undefined && tick.starts > this.tick.starts;
    if (restarted) this.log.clear(nowMs);
    this.tick = tick;
    this.blocks.apply(tick);
    this.log.add(tick.timeline, tick.running, nowMs);
    return restarted;
  }

  /** The sequence that holds a block alone. */
  holderOf(block: number): RunningSequence | undefined {
    const lane = this.blocks.stateOf(block) - FIRST_LANE;
    return this.tick?.running.find((sequence) => sequence.lane === lane);
  }
}

interface BoardState {
  /** Absent until the first snapshot. */
  readonly tick?: LiveTick;
  readonly engines: readonly EngineBoard[];
  /** The newest first, as everything below. */
  readonly ended: readonly EndedRequest[];
  readonly notices: readonly Notice[];
}

export class LiftBoard extends Observable<BoardState> {
  readonly series = new Series();
  readonly hour = new Hour();
  #startedMs: number | undefined;

  constructor() {
    super({ engines: [], ended: [], notices: [] });
  }

  /** Nothing runs or has run of late: there is nothing to draw. */
  get isIdle(): boolean {
    const { tick, ended } = this.value;
    if (tick === undefined || ended.length > 0 || tick.requests.running + tick.requests.queued > 0)
      return false;
    return tick.firstToken === undefined && !this.series.hasTokens && !this.hour.hasTokens;
  }

  takeSnapshot(snapshot: LiveSnapshot): void {
    const restarted = this.#startedMs !== undefined && this.#startedMs !== snapshot.startedMs;
    this.#startedMs = snapshot.startedMs;
    if (restarted) {
      this.note('The server was restarted.');
      this.set({ ...this.value, engines: [] });
    }
    // What came between is not known: a line across it would be invented.
    this.series.breakOff();
    this.takeTick(snapshot);
  }

  takeTick(tick: LiveTick): void {
    const engines = tick.engines.map((sent) => {
      const engine = this.#engineOf(sent.model);
      if (engine.take(sent, tick.atMs)) this.note(`The engine of ${sent.model} died and was started again.`);
      return engine;
    });
    this.series.add(tick);
    this.hour.add(tick);
    const ended = [...tick.ended].reverse().concat(this.value.ended).slice(0, ENDED_KEPT);
    this.set({ ...this.value, tick, engines, ended });
  }

  note(text: string): void {
    const notices = [{ atMs: Date.now(), text }, ...this.value.notices].slice(0, NOTICES_KEPT);
    this.set({ ...this.value, notices });
  }

  #engineOf(model: string): EngineBoard {
    return this.value.engines.find((engine) => engine.model === model) ?? new EngineBoard(model);
  }
}
