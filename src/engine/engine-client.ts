// How everything above the engine speaks to one, wherever it runs: in this process, in one of its own, or in a fleet.

import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { EngineStats } from './engine.ts';
import type { EngineMonitor } from './engine-monitor.ts';
import type { EngineRequest, RequestEvent } from './request.ts';

export interface EngineClient {
  /** Why the engine has given up for good, once it has. */
  readonly failure: string | undefined;
  /** Absent where steps cannot be seen from here: those of a fleet are seen on each worker. */
  readonly monitor?: EngineMonitor | undefined;
  /** The request's events until it has ended. Leaving the loop early cancels it. */
  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void>;
  /** Takes effect before the next step; the stream then ends with `cancelled`. */
  cancel(id: string): void;
  stats(): Promise<EngineStats>;
  /** What tokens spell: before the first request with a grammar. Calling it again changes nothing. */
  setVocabulary(vocabulary: VocabularyTables): void;
  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void>;
  /** Ends the engine and gives its memory back; unfinished requests end with an error. */
  close(): Promise<void>;
}
