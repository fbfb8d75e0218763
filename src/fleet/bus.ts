// What a fleet needs of a message system: say something to whoever listens, and ask somebody who must answer. Messages may
// be lost, never changed, and come in order from one sender; everything above can bear that.

export type BusListener = (message: unknown, reply: ((answer: unknown) => void) | undefined) => void;

export type BusState = 'connected' | 'cut-off' | 'closed';

export interface Bus {
  readonly state: BusState;
  /** Nobody may hear it. */
  tell(subject: string, message: unknown): void;
  /** Rejects where nobody listens, or no answer comes in time. */
  ask(subject: string, message: unknown, timeoutMs: number): Promise<unknown>;
  /** Returns what ends it. */
  listen(subject: string, listener: BusListener): () => void;
  /** Hears of every change of state. */
  onState(listener: (state: BusState) => void): () => void;
  /** Sends what is left and ends. */
  close(): Promise<void>;
}
