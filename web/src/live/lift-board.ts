// The operator's board: all that the feed has told, as far back as it is shown.

import type { EndedRequest, LiveSnapshot, LiveTick } from '../../../src/server/live/live-event.ts';
import { Observable } from '../observable.ts';
import { EngineBoard } from './engine-board.ts';
import { Series } from './series.ts';

const ENDED_KEPT = 50;
const NOTICES_KEPT = 8;

export interface Notice {
  readonly atMs: number;
  readonly text: string;
}

export interface BoardState {
  /** Absent until the first snapshot. */
  readonly tick?: LiveTick;
  readonly version?: string;
  readonly engines: readonly EngineBoard[];
  /** The newest first, as everything below. */
  readonly ended: readonly EndedRequest[];
  readonly notices: readonly Notice[];
}

export class LiftBoard extends Observable<BoardState> {
  readonly series = new Series();
  #startedMs: number | undefined;

  constructor() {
    super({ engines: [], ended: [], notices: [] });
  }

  takeSnapshot(snapshot: LiveSnapshot): void {
    const restarted = this.#startedMs !== undefined && this.#startedMs !== snapshot.startedMs;
    this.#startedMs = snapshot.startedMs;
    if (restarted) {
      this.note('The server was restarted.');
      this.set({ ...this.value, engines: [] });
    }
    const engines = snapshot.engines.map((told) => {
      const engine = this.#engineOf(told.model);
      engine.begin(told);
      return engine;
    });
    this.set({ ...this.value, version: snapshot.version, engines });
    // What came between is not known: a line across would be a guess.
    this.series.breakOff();
    this.takeTick(snapshot.tick);
  }

  takeTick(tick: LiveTick): void {
    const engines = tick.engines.map((told) => {
      const engine = this.#engineOf(told.model);
      if (engine.take(told, tick.atMs)) this.note(`The engine of ${told.model} died and was started again.`);
      return engine;
    });
    this.series.add(tick);
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
