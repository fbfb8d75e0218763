// Downloads of models. They go on while the tab is open, in any view.

import { type Server, wordsFor } from '../access/server.ts';
import { Observable } from '../observable.ts';
import { linesOf } from '../stream/events.ts';

export interface Pull {
  readonly model: string;
  readonly state: 'running' | 'done' | 'failed' | 'cancelled';
  readonly status: string;
  readonly totalBytes?: number;
  readonly doneBytes?: number;
}

interface PullLine {
  readonly status?: string;
  readonly total?: number;
  readonly completed?: number;
  readonly error?: string;
}

export class Pulls extends Observable<readonly Pull[]> {
  readonly #server: Server;
  readonly #leaves = new Map<string, AbortController>();

  constructor(server: Server) {
    super([]);
    this.#server = server;
  }

  cancel(model: string): void {
    this.#leaves.get(model)?.abort();
  }

  dismiss(model: string): void {
    this.set(this.value.filter((one) => one.model !== model));
  }

  async start(model: string): Promise<void> {
    if (this.#leaves.has(model)) return;
    const leave = new AbortController();
    this.#leaves.set(model, leave);
    this.#show({ model, state: 'running', status: 'asking' });
    try {
      const response = await this.#server.ask('api/pull', { body: { model }, signal: leave.signal });
      let last = '';
      for await (const line of linesOf(response)) {
        if (line.trim() === '') continue;
        const { status = '', total, completed, error } = JSON.parse(line) as PullLine;
        if (error !== undefined) throw new Error(error);
        last = status;
        const amounts = total === undefined ? {} : { totalBytes: total, doneBytes: completed ?? 0 };
        this.#show({ model, state: 'running', status, ...amounts });
      }
      if (last !== 'success') throw new Error('the server stopped in the middle of it');
      this.#show({ model, state: 'done', status: 'here, and ready to be asked' });
    } catch (error) {
      const cancelled = leave.signal.aborted;
      this.#show({
        model,
        state: cancelled ? 'cancelled' : 'failed',
        status: cancelled ? 'cancelled; what came is kept for the next try' : wordsFor(error),
      });
    } finally {
      this.#leaves.delete(model);
    }
  }

  #show(pull: Pull): void {
    const known = this.value.some(({ model }) => model === pull.model);
    this.set(
      known ? this.value.map((one) => (one.model === pull.model ? pull : one)) : [pull, ...this.value],
    );
  }
}
