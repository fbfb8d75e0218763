// Memory for the pictures of requests: a request takes room for all of its own before the first is fetched, in the order in
// which they came, and keeps it to its end. What several show at once counts once.

interface Waiting {
  readonly bytes: ReadonlyMap<string, number>;
  readonly enter: () => void;
}

interface Held {
  readonly bytes: number;
  users: number;
}

export class PictureRoom {
  readonly #limitBytes: number;
  readonly #held = new Map<string, Held>();
  readonly #waiting = new Set<Waiting>();
  #usedBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** `bytes`: by content. Resolves with what gives the room back; rejects with the signal's reason. */
  async take(bytes: ReadonlyMap<string, number>, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#waiting.size > 0 || !this.#fits(bytes)) await this.#turn(bytes, signal);
    else this.#enter(bytes);
    return () => this.#leave(bytes);
  }

  #turn(bytes: ReadonlyMap<string, number>, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = {
        bytes,
        enter: () => {
          signal.removeEventListener('abort', abort);
          this.#waiting.delete(waiting);
          this.#enter(bytes);
          resolve();
        },
      };
      const abort = () => {
        this.#waiting.delete(waiting);
        reject(signal.reason as Error);
        // It may have stood before one that fits.
        this.#admit();
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  /** One that is larger than all there is has it to itself. */
  #fits(bytes: ReadonlyMap<string, number>): boolean {
    const added = [...bytes].reduce((sum, [content, its]) => sum + (this.#held.has(content) ? 0 : its), 0);
    return this.#usedBytes === 0 || this.#usedBytes + added <= this.#limitBytes;
  }

  #enter(bytes: ReadonlyMap<string, number>): void {
    for (const [content, its] of bytes) {
      const held = this.#held.get(content) ?? { bytes: its, users: 0 };
      if (held.users === 0) this.#usedBytes += held.bytes;
      held.users += 1;
      this.#held.set(content, held);
    }
  }

  #leave(bytes: ReadonlyMap<string, number>): void {
    for (const content of bytes.keys()) {
      const held = this.#held.get(content) as Held;
      held.users -= 1;
      if (held.users > 0) continue;
      this.#held.delete(content);
      this.#usedBytes -= held.bytes;
    }
    this.#admit();
  }

  #admit(): void {
    for (const one of this.#waiting) {
      if (!this.#fits(one.bytes)) return;
      one.enter();
    }
  }
}
