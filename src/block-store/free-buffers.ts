// Memory that was read into and given back: a thread that reads blocks takes it again, so that neither it nor those that it reads for
// make garbage of some megabytes a step. What nobody takes for a while goes.

const KEPT_BYTES = 128 * 2 ** 20;
const KEPT_MS = 2000;

export class FreeBuffers {
  /** By size: blocks of a model have one, its recurrent states another. */
  readonly #buffers = new Map<number, ArrayBuffer[]>();
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  take(bytes: number): Uint8Array<ArrayBuffer> {
    const buffer = this.#buffers.get(bytes)?.pop();
    if (buffer === undefined) return new Uint8Array(bytes);
    this.#bytes -= bytes;
    return new Uint8Array(buffer);
  }

  add(buffers: readonly ArrayBuffer[]): void {
    for (const buffer of buffers) {
      if (this.#bytes + buffer.byteLength > KEPT_BYTES) break;
      const same = this.#buffers.get(buffer.byteLength);
      if (same === undefined) this.#buffers.set(buffer.byteLength, [buffer]);
      else same.push(buffer);
      this.#bytes += buffer.byteLength;
    }
    this.#timer ??= setTimeout(() => this.#clear(), KEPT_MS).unref();
    this.#timer.refresh();
  }

  #clear(): void {
    this.#timer = undefined;
    this.#buffers.clear();
    this.#bytes = 0;
  }
}
