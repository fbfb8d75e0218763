// The child process that an engine runs in: forked, spoken to, and gone exactly once. Knows nothing of requests.

import { type ChildProcess, fork } from 'node:child_process';
import type { FromEngine, ToEngine } from '../engine/protocol.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { EngineHost, HostListener } from './engine-host.ts';

// The compiled file, from wherever this one runs.
const entry = new URL('../../dist/engine/process.js', import.meta.url);

type SpawnResult =
  | { readonly ok: true; readonly process: EngineProcess }
  | { readonly ok: false; readonly reason: string };

/** A process that waits to be told what to load, or why the system gives none. */
export function spawnEngine(listener: HostListener): Promise<SpawnResult> {
  return new Promise((resolve) => {
    const refuse = (error: unknown) => resolve({ ok: false, reason: messageOf(error) });
    try {
      const child = fork(entry, {
        serialization: 'advanced',
        // A session of its own: what a terminal sends to its processes, at Ctrl-C or when it is closed, is the server's to
        // handle. The engine ends when its connection to the server does.
        detached: true,
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
      // For life: a second error must not end the server. Those after the start, of a signal or a message that
      // could not be sent, are followed by its end, which is heard of anyway.
      child.on('error', refuse);
      child.once('spawn', () => resolve({ ok: true, process: new EngineProcess(child, listener) }));
    } catch (error) {
      refuse(error);
    }
  });
}

export class EngineProcess implements EngineHost {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;

  /** `child` has just been spawned. */
  constructor(child: ChildProcess, listener: HostListener) {
    this.#child = child;
    child.on('message', (message: FromEngine) => listener.hear(message));
    const exited = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) =>
        resolve(signal === null ? `ended with code ${code}` : `was killed by ${signal}`),
      );
    });
    const silent = new Promise<void>((resolve) => {
      child.once('disconnect', () => resolve());
    });
    this.#ended = Promise.all([exited, silent]).then(([cause]) => listener.gone(cause));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  send(message: ToEngine): void {
    this.#child.send(message, () => {});
  }

  kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    return this.#ended;
  }
}
