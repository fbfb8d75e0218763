// Where an engine runs: in a process of its own, or in the server's. Both take the same messages and send the same.

import { type ChildProcess, fork } from 'node:child_process';
import { Engine } from '../engine/engine.ts';
import { type LoadedEngine, loadEngine, readyMessage } from '../engine/load-engine.ts';
import { type EngineSettings, type FromEngine, handleCommand, type ToEngine } from '../engine/protocol.ts';
import { unloadedError } from '../engine/request-errors.ts';
import { messageOf } from '../runtime/error-message.ts';

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

// The compiled file, from wherever this one runs.
const entry = new URL('../../dist/engine/process.js', import.meta.url);

type SpawnResult =
  | { readonly ok: true; readonly process: EngineProcess }
  | { readonly ok: false; readonly reason: string };

/** A process that waits for its model, or why the system gives none. */
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

/** Forked, spoken to, and gone exactly once. */
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

/**
 * One request at a time, in the server's own process: the last resort where the system gives no process. A fault in native
 * code would take the server with it.
 */
export class EngineInServer implements EngineHost {
  readonly pid = undefined;
  readonly #listener: HostListener;
  #engine: Engine | undefined;
  #ended: Promise<void> = Promise.resolve();
  #killed = false;

  constructor(listener: HostListener) {
    this.#listener = listener;
  }

  send(message: ToEngine): void {
    if (message.kind === 'load') this.#ended = this.#live(message.settings);
    else if (this.#engine !== undefined)
      handleCommand(this.#engine, message, (answer) => this.#listener.hear(answer));
  }

  async kill(): Promise<void> {
    // Its requests are not over: the next engine takes them on.
    this.#killed = true;
    this.#engine?.end(unloadedError);
    await this.#ended;
  }

  async #live(settings: EngineSettings): Promise<void> {
    const loaded = await this.#load(settings);
    if (loaded === undefined) return;
    const { backend, options } = loaded;
    try {
      if (this.#killed) return;
      const engine = new Engine(backend, { ...options, direct: true }, (report) => {
        if (!this.#killed) this.#listener.hear({ kind: 'report', report });
      });
      this.#engine = engine;
      this.#listener.hear(readyMessage(loaded));
      await engine.run();
      await engine.whenQuiet();
    } catch (error) {
      if (!this.#killed) this.#listener.gone(`could not go on: ${messageOf(error)}`);
    } finally {
      this.#engine = undefined;
      backend.close();
      options.draft?.backend.close();
    }
  }

  async #load(settings: EngineSettings): Promise<LoadedEngine | undefined> {
    try {
      return await loadEngine(
        settings,
        (share) => this.#listener.hear({ kind: 'loading', share }),
        (message) => this.#listener.hear({ kind: 'warning', message }),
      );
    } catch (error) {
      this.#listener.hear({ kind: 'unservable', message: messageOf(error) });
      return undefined;
    }
  }
}
