// Programs that want a core each: what else runs on a machine, for as long as it is let run.

import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

// Until the system has found cores for them.
const SETTLE_MS = 20;

export class BusyPrograms {
  readonly #programs: readonly ChildProcess[];

  /** They wait at first. */
  constructor(count: number) {
    this.#programs = Array.from({ length: count }, () =>
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
    );
    this.#signal('SIGSTOP');
  }

  async during<T>(run: () => Promise<T>): Promise<T> {
    this.#signal('SIGCONT');
    await sleep(SETTLE_MS);
    try {
      return await run();
    } finally {
      this.#signal('SIGSTOP');
    }
  }

  close(): void {
    this.#signal('SIGKILL');
  }

  #signal(signal: NodeJS.Signals): void {
    for (const program of this.#programs) program.kill(signal);
  }
}
