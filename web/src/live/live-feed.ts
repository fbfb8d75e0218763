// The connection to GET /live: keeps the board up to date and reconnects by itself. While it is paused there is no
// connection, so that the engines take no snapshots.

import type { HistoryPoint, LiveSnapshot, LiveTick } from '../../../src/server/live/live-event.ts';
import { Refusal, type Server, wordsFor } from '../access/server.ts';
import { Observable } from '../observable.ts';
import { eventsOf } from '../stream/events.ts';
import type { LiftBoard } from './lift-board.ts';

export type FeedState =
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  | { readonly state: 'lost'; readonly problem: string; readonly againMs: number }
  | { readonly state: 'paused'; readonly sinceMs: number }
  | { readonly state: 'refused'; readonly problem: string };

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** A tick comes four times a second: a connection this long without one is lost, whatever the socket says. */
const SILENCE_MS = 8000;

export class LiveFeed extends Observable<FeedState> {
  readonly #server: Server;
  readonly #board: LiftBoard;
  #leave: AbortController | undefined;

  constructor(server: Server, board: LiftBoard) {
    super({ state: 'connecting' });
    this.#server = server;
    this.#board = board;
  }

  start(): void {
    if (this.#leave !== undefined || this.value.state === 'paused') return;
    this.#leave = new AbortController();
    void this.#follow(this.#leave.signal);
  }

  stop(): void {
    this.#leave?.abort();
    this.#leave = undefined;
  }

  pause(): void {
    this.stop();
    this.set({ state: 'paused', sinceMs: Date.now() });
  }

  resume(): void {
    this.set({ state: 'connecting' });
    this.start();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    let lost = false;
    while (!signal.aborted) {
      try {
        await this.#read(signal, () => {
          if (lost) this.#board.note('Connected again.');
          lost = false;
          pauseMs = FIRST_PAUSE_MS;
        });
        throw new Error('the server ended the feed');
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refusal && [401, 403, 404].includes(error.status)) {
          return this.set({ state: 'refused', problem: refusalWords(error) });
        }
        const problem = wordsFor(error);
        if (!lost) this.#board.note(`The connection was lost: ${problem}.`);
        lost = true;
        this.set({ state: 'lost', problem, againMs: Date.now() + pauseMs });
        await wait(pauseMs, signal);
        pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
      }
    }
  }

  async #read(signal: AbortSignal, onLive: () => void): Promise<void> {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
    };
    try {
      const response = await this.#server.ask('live', { signal: AbortSignal.any([signal, silent.signal]) });
      for await (const { event, data } of eventsOf(response, heard)) {
        if (signal.aborted) return;
        if (event === 'snapshot') {
          onLive();
          this.#board.takeSnapshot(JSON.parse(data) as LiveSnapshot);
          if (this.value.state !== 'live') this.set({ state: 'live' });
        } else if (event === 'tick') this.#board.takeTick(JSON.parse(data) as LiveTick);
        else if (event === 'history') this.#board.hour.begin(JSON.parse(data) as HistoryPoint[]);
      }
    } catch (error) {
      throw silent.signal.aborted ? new Error('the server is silent') : error;
    } finally {
      clearTimeout(timer);
    }
  }
}

function refusalWords({ status, message }: Refusal): string {
  return status === 404 ? 'this address has no live feed; the one for administrators may have it' : message;
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
