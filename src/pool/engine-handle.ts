// How everything above the engine speaks to one, wherever it runs.

import type { EngineStats, StepEvent } from '../engine/engine.ts';
import type { EngineRequest, RequestEvent } from '../engine/request.ts';

export interface EngineHandle {
  /** Why the engine has given up for good, once it has. */
  readonly failure: string | undefined;
  /** The request's events until all its choices have ended. Leaving the loop early cancels it. */
  submit(request: EngineRequest): AsyncGenerator<RequestEvent, void, void>;
  /** Takes effect before the next step; the stream then ends with `cancelled`. */
  cancel(id: string): void;
  stats(): Promise<EngineStats>;
  /** Calls the watcher after every step until the returned function is called. */
  watch(watcher: (event: StepEvent) => void): () => void;
  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void>;
  /** Ends the engine and gives its memory back; unfinished requests end with an error. */
  close(): Promise<void>;
}
