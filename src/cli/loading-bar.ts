// How much of a model is loaded, at a terminal, below the lines of the log: both go to one destination, so that they do not mix.

import type { LogDestination } from '../app/log-destination.ts';
import { type ProgressBar, progressBar } from './terminal.ts';

const CLEAR_LINE = '\r\x1b[2K';

export class LoadingBar implements Pick<LogDestination, 'write'> {
  readonly #log: Pick<LogDestination, 'write'>;
  #bar: ProgressBar | undefined;
  #model: string | undefined;
  #ended = false;

  constructor(log: Pick<LogDestination, 'write'>) {
    this.#log = log;
  }

  readonly update = (model: string, share: number): void => {
    if (this.#ended) return;
    if (this.#model !== model) {
      const { isTTY = false, columns } = process.stderr;
      this.#bar = progressBar(`loading ${model}`, { isTTY, columns, write: (text) => this.#log.write(text) });
      this.#model = model;
    }
    this.#bar?.update(share);
  };

  /** A line of the log takes the bar's place; the bar comes back with its next change. */
  write(line: string): void {
    this.#log.write(this.#isShown ? CLEAR_LINE + line : line);
  }

  end(): void {
    if (this.#isShown) this.#bar?.end();
    this.#ended = true;
  }

  get #isShown(): boolean {
    return this.#bar !== undefined && !this.#ended && process.stderr.isTTY === true;
  }
}
