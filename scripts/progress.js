// Shows what a build is doing: one line, rewritten on a terminal; elsewhere a line when something begins and every ten seconds.

const REWRITE_MS = 500;
const REPEAT_MS = 10_000;
const CLEAR_LINE = '\r\x1b[K';

/** @typedef {{ add(count: number): void, done(): void }} Pieces */

export class Progress {
  #prefix;
  #stream;
  #began = performance.now();
  #tasks = new Map();
  #timer;

  /**
   * @param {string} prefix
   * @param {{ isTTY?: boolean, columns?: number, write(text: string): void }} stream
   */
  constructor(prefix, stream = process.stderr) {
    this.#prefix = prefix;
    this.#stream = stream;
  }

  log(line) {
    this.#stream.write(`${this.#stream.isTTY ? CLEAR_LINE : ''}${this.#prefix}: ${line}\n`);
  }

  /**
   * Runs `work` as a task that the line names; it may tell how many pieces there are, and of which kind.
   * @template T
   * @param {string} name
   * @param {(pieces: Pieces) => Promise<T>} work
   * @param {string} [kind]
   * @returns {Promise<T>}
   */
  async during(name, work, kind = 'files') {
    const task = { name, kind, done: 0, total: 0 };
    const isOfPieces = work.length > 0;
    if (!isOfPieces) this.#begin(task);
    const pieces = {
      // A task without pieces is not shown.
      add: (count) => {
        task.total += count;
        if (count > 0) this.#begin(task);
      },
      done: () => task.done++,
    };
    try {
      return await work(pieces);
    } finally {
      this.#end(task);
    }
  }

  /** Such as `34 s: installing packages, compiling C++ (7 of 9 files)`. */
  #status() {
    const tasks = [...this.#tasks.values()].map(({ name, kind, done, total }) =>
      total === 0 ? name : `${name} (${done} of ${total} ${kind})`,
    );
    return `${Math.round((performance.now() - this.#began) / 1000)} s: ${tasks.join(', ')}`;
  }

  #begin(task) {
    const isNew = !this.#tasks.has(task.name);
    this.#tasks.set(task.name, task);
    if (isNew && !this.#stream.isTTY) this.log(task.name);
    this.#timer ??= setInterval(() => this.#tell(), this.#stream.isTTY ? REWRITE_MS : REPEAT_MS);
    if (this.#stream.isTTY) this.#tell();
  }

  #end({ name }) {
    this.#tasks.delete(name);
    if (this.#tasks.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (this.#stream.isTTY) this.#stream.write(CLEAR_LINE);
  }

  #tell() {
    if (!this.#stream.isTTY) {
      this.log(this.#status());
      return;
    }
    const line = `${this.#prefix}: ${this.#status()}`;
    this.#stream.write(`${CLEAR_LINE}${line.slice(0, (this.#stream.columns ?? 80) - 1)}`);
  }
}
