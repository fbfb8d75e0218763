// Where an engine runs: in a process of its own, or in the server's. Both take the same messages and send the same.

import type { FromEngine, ToEngine } from '../engine/protocol.ts';

export interface EngineHost {
  /** Of the process, where it is one of its own. */
  readonly pid: number | undefined;
  /** What a host that has just ended no longer hears is lost. */
  send(message: ToEngine): void;
  /** Ends it, whatever it does; resolves when it is gone and its memory is free. */
  kill(): Promise<void>;
}

export interface HostListener {
  hear(message: FromEngine): void;
  /** Once, when it has ended and everything it said was heard. `cause` follows "the engine process". */
  gone(cause: string): void;
}
