// Prepared pictures by their content, up to a number of bytes; those that were not used for longest go first.

import type { ImageView } from '../model/vision/vision-spec.ts';

export class ViewCache {
  readonly #mostBytes: number;
  /** In order of use. */
  readonly #kept = new Map<string, readonly ImageView[]>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  find(key: string): readonly ImageView[] | undefined {
    const views = this.#kept.get(key);
    if (views === undefined) return undefined;
    this.#kept.delete(key);
    this.#kept.set(key, views);
    return views;
  }

  add(key: string, views: readonly ImageView[]): void {
    if (this.#kept.has(key)) return;
    this.#kept.set(key, views);
    this.#bytes += bytesOf(views);
    for (const [oldest, its] of this.#kept) {
      if (this.#bytes <= this.#mostBytes) return;
      this.#kept.delete(oldest);
      this.#bytes -= bytesOf(its);
    }
  }
}

function bytesOf(views: readonly ImageView[]): number {
  return views.reduce((sum, { rgb }) => sum + rgb.byteLength, 0);
}
