// An engine in the server's own process, one request at a time: the last resort where the system gives no process.
// A fault in native code would take the server with it.

import { Engine } from '../engine/engine.ts';
import { type LoadedEngine, loadEngine, readyMessage } from '../engine/load-engine.ts';

import { type EngineSettings, handleCommand, type ToEngine } from '../engine/protocol.ts';
import { unloadedError } from '../engine/request-errors.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { EngineHost, HostListener } from './engine-host.ts';

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
    // Its requests are not over: whoever takes them on ends them.
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
      return await loadEngine(settings, (share) => this.#listener.hear({ kind: 'loading', share }));
    } catch (error) {
      this.#listener.hear({ kind: 'unservable', message: messageOf(error) });
      return undefined;
    }
  }
}
