// The lives of the server: started, ended as planned, started again on the same port and database. A life that ends
// without being told to is a violation, and the next one begins all the same.

import type { Books } from './books.ts';
import { type Closing, closeServer } from './closing.ts';
import { CounterWatch } from './counters.ts';
import type { HoldUps } from './hold-ups.ts';
import { Outages } from './outages.ts';
import type { Stop } from './schedule.ts';
import type { Server, ServerHome, ServerSettings } from './server.ts';
import type { Timeline } from './timeline.ts';
import type { Trial } from './trial.ts';
import type { Violations } from './violations.ts';

export interface ServerLivesParts {
  readonly timeline: Timeline;
  readonly violations: Violations;
  readonly books: Books;
  readonly holdUps: HoldUps;
}

export class ServerLives {
  readonly home: ServerHome;
  readonly outages = new Outages();
  readonly counters = new CounterWatch();
  readonly books: Books;
  readonly holdUps: HoldUps;
  /** Log lines of errors, by what they say, of all lives. */
  readonly errors: Record<string, number> = {};
  readonly #timeline: Timeline;
  readonly #violations: Violations;
  #current: Server | undefined;
  #stopping = false;

  constructor(home: ServerHome, { timeline, violations, books, holdUps }: ServerLivesParts) {
    this.home = home;
    this.books = books;
    this.holdUps = holdUps;
    this.#timeline = timeline;
    this.#violations = violations;
  }

  /** The one that runs, or ran last. */
  get current(): Server {
    if (this.#current === undefined) throw new Error('no server was started');
    return this.#current;
  }

  async start(settings: ServerSettings): Promise<void> {
    const server = await this.home.start(settings, (message) => {
      // The watchdog's own work; ends that others brought about are known already.
      if (message.includes('said nothing')) this.#timeline.death();
    });
    if (settings.terminal && !server.settings.terminal)
      this.#timeline.note('no terminal: python3 is missing');
    this.#current = server;
    this.#stopping = false;
    this.counters.restart();
    this.holdUps.follow(server.pid);
    this.books.lifeBegan(performance.now());
    this.outages.end();
    void server.process.exited.then(({ code, signal }) => {
      if (this.#stopping || this.#current !== server) return;
      this.outages.begin('cut', 0);
      this.books.lost(performance.now());
      const detail = `exit code ${code}, signal ${signal}\n${server.log.recent()}`;
      this.#violations.add('the server died', detail);
    });
  }

  async stop(trial: Trial, stop: Stop): Promise<Closing> {
    const server = this.current;
    if (!server.alive) return { how: stop.kind, exitCode: null, seconds: 0 };
    this.#stopping = true;
    const closing = await closeServer(trial, this.home, stop);
    for (const cry of server.log.cries.slice(0, 50)) this.#violations.add('a cry on standard error', cry);
    for (const [message, count] of Object.entries(server.log.errors)) {
      this.errors[message] = (this.errors[message] ?? 0) + count;
    }
    return closing;
  }
}
