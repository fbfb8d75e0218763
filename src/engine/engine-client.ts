// How everything above the engine speaks to one, wherever it runs: in this process, in one of its own, or in a fleet.

import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { EngineStats } from './engine.ts';
import type { EngineMonitor } from './engine-monitor.ts';
import type { EngineRequest, RequestEvent } from './request.ts';
import type { BlockStats, SchedulerStats } from './scheduler/stats.ts';
import type { SlotAction, SlotResult } from './slots/slot-action.ts';

/** How busy an engine is. */
export interface EngineLoad {
  readonly queues: readonly Pick<SchedulerStats['queues'][number], 'priority' | 'waiting'>[];
  readonly running: number;
  readonly blocks: Pick<BlockStats, 'free' | 'cached' | 'used'>;
}

export interface EngineClient {
  /** Why the engine has given up for good, once it has. */
  readonly failure: string | undefined;
  /** Absent where steps cannot be seen from here: those of a fleet are seen on each worker. */
  readonly monitor?: EngineMonitor | undefined;
  /** The request's events until it has ended. Leaving the loop early cancels it. */
  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void>;
  /** Present where a request may find no engine: resolves when one has it; never, where it ends before. */
  accepted?(id: string): Promise<void>;
  /** Takes effect before the next step; the stream then ends with `cancelled`. */
  cancel(id: string): void;
  stats(): Promise<EngineStats>;
  /**
   * What is known without asking: of a fleet, what its workers published last; undefined where none serves. Absent where the
   * engine can be asked: it is one, and near.
   */
  knownLoad?(): EngineLoad | undefined;
  /** Rejects where no engine answers. Absent where the cache is another machine's. */
  actOnSlot?(action: SlotAction): Promise<SlotResult>;
  /** What tokens spell: before the first request with a grammar. Calling it again changes nothing. */
  setVocabulary(vocabulary: VocabularyTables): void;
  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void>;
  /** Ends the engine and gives its memory back; unfinished requests end with an error. */
  close(): Promise<void>;
}

/** Asks the engine only where nothing is known without. */
export async function loadOf(engine: Pick<EngineClient, 'stats' | 'knownLoad'>): Promise<EngineLoad> {
  if (engine.knownLoad === undefined) {
    const { queues, running, blocks } = await engine.stats();
    return { queues, running: running.length, blocks };
  }
  const known = engine.knownLoad();
  if (known === undefined) throw new Error('no worker that serves it is known');
  return known;
}
