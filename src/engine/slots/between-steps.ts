// Work on blocks that is done between steps, a part at a time: what changes the cache before a step is planned, copies for as long
// as a step leaves time.

interface Task {
  readonly count: number;
  next: number;
  readonly run: (index: number) => void;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class BetweenSteps {
  readonly #wake: () => void;
  readonly #changes: (() => void)[] = [];
  readonly #copies: Task[] = [];
  #isOver = false;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  get hasWork(): boolean {
    return this.hasCopies || this.#changes.length > 0;
  }

  get hasCopies(): boolean {
    return this.#copies.length > 0;
  }

  /** Changes the cache at once, before the next plan. */
  change<Result>(run: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#changes.push(() => {
        try {
          resolve(run());
        } catch (error) {
          reject(error);
        }
      });
      this.#begin();
    });
  }

  /** Runs for each index, in order. */
  copy(count: number, run: (index: number) => void): Promise<void> {
    if (count === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#copies.push({ count, next: 0, run, resolve, reject });
      this.#begin();
    });
  }

  runChanges(): void {
    for (const run of this.#changes.splice(0)) run();
  }

  /** One copy at least. */
  runCopies(mayGoOn: () => boolean): void {
    let task = this.#copies[0];
    while (task !== undefined) {
      try {
        task.run(task.next++);
        if (task.next === task.count) this.#end()?.resolve();
      } catch (error) {
        this.#end()?.reject(error);
      }
      if (!mayGoOn()) return;
      task = this.#copies[0];
    }
  }

  /** There are no steps any more: what is left is done at once, and so is what comes. */
  end(): void {
    this.#isOver = true;
    this.#runAll();
  }

  #begin(): void {
    if (this.#isOver) this.#runAll();
    else this.#wake();
  }

  #runAll(): void {
    this.runChanges();
    this.runCopies(() => true);
  }

  #end(): Task | undefined {
    return this.#copies.shift();
  }
}
