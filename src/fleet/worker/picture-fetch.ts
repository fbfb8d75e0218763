// One picture's file, in parts that its gateway sends when they are asked for: a few at a time, so that neither the message
// system nor a slow link holds more than these. What does not come is asked for again.

import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../../runtime/clock.ts';

/** What is asked for at once, and what is asked for again after a silence. */
const WINDOW_BYTES = 2 ** 20;
const LEAST_WINDOW_BYTES = 2 ** 18;
const SILENT_MS = 1000;
const LONGEST_SILENT_MS = 15_000;

interface PictureFetchOptions {
  readonly bytes: number;
  /** SHA-256 in hex. */
  readonly hash: string;
  readonly clock: Clock;
  readonly ask: (offset: number, bytes: number) => void;
}

export class PictureFetch {
  readonly #options: PictureFetchOptions;
  readonly #file: Buffer;
  /** Of what has come: a whole file at once would hold up the loop. */
  readonly #hash = createHash('sha256');
  #received = 0;
  #window = WINDOW_BYTES;
  #askedTo = 0;
  /** How long nothing may come: twice as long as the last part took, since links differ. */
  #silentMs = SILENT_MS;
  #progressMs = 0;
  #timer: Timer | undefined;
  #resolve: (file: Uint8Array) => void = () => {};
  #reject: (reason: Error) => void = () => {};

  constructor(options: PictureFetchOptions) {
    this.#options = options;
    this.#file = Buffer.allocUnsafeSlow(options.bytes);
  }

  /** The whole file; rejects with the signal's reason, or where another file came. */
  run(signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    const abort = () => this.#reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
    const whole = new Promise<Uint8Array>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#progressMs = this.#options.clock.monotonicMs();
      this.#ask();
    });
    return whole.finally(() => {
      this.#timer?.end();
      signal.removeEventListener('abort', abort);
    });
  }

  /** Parts arrive in order, or are missing: what comes too early is asked for again in its turn. */
  take(offset: number, content: Uint8Array): void {
    if (offset !== this.#received || content.length === 0) return;
    if (offset + content.length > this.#file.length) return;
    this.#file.set(content, offset);
    this.#hash.update(content);
    this.#received += content.length;
    this.#noteProgress();
    if (this.#received === this.#file.length) this.#end();
    else if (this.#received < this.#askedTo) this.#expect();
    else {
      this.#window = Math.min(2 * this.#window, WINDOW_BYTES);
      this.#ask();
    }
  }

  #noteProgress(): void {
    const nowMs = this.#options.clock.monotonicMs();
    this.#silentMs = Math.min(Math.max(SILENT_MS, 2 * (nowMs - this.#progressMs)), LONGEST_SILENT_MS);
    this.#progressMs = nowMs;
  }

  #ask(): void {
    const bytes = Math.min(this.#window, this.#file.length - this.#received);
    this.#askedTo = this.#received + bytes;
    this.#expect();
    this.#options.ask(this.#received, bytes);
  }

  #expect(): void {
    this.#timer?.end();
    this.#timer = this.#options.clock.after(this.#silentMs, () => {
      // A slow link may still carry what was asked for before.
      this.#silentMs = Math.min(2 * this.#silentMs, LONGEST_SILENT_MS);
      this.#window = LEAST_WINDOW_BYTES;
      this.#ask();
    });
  }

  #end(): void {
    const { hash } = this.#options;
    const found = this.#hash.digest('hex');
    if (found === hash) this.#resolve(this.#file);
    else this.#reject(new Error(`another file came in place of a picture: ${found} is not ${hash}`));
  }
}
