// The files of pictures that a gateway holds for its open requests: until an answer ends, another worker may need them.

import type { EngineRequest, RequestError } from '../../engine/request.ts';

export const tooManyPictures: RequestError = {
  code: 'no-worker',
  message: 'this gateway holds as many images of running requests as it may; send it again later',
};

export class HeldPictures {
  readonly #limitBytes: number;
  /** By file: requests that show it. Answers to one prompt share theirs. */
  readonly #users = new Map<Uint8Array, number>();
  #bytes = 0;

  constructor(limitBytes = Number.POSITIVE_INFINITY) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False where there is no room; a request alone always has some. */
  hold(request: EngineRequest): boolean {
    const files = filesOf(request);
    const added = files.reduce((sum, file) => sum + (this.#users.has(file) ? 0 : file.length), 0);
    const fits = added === 0 || this.#bytes === 0 || this.#bytes + added <= this.#limitBytes;
    // Whoever is refused is released like the others.
    for (const file of files) {
      const users = this.#users.get(file) ?? 0;
      if (users === 0) this.#bytes += file.length;
      this.#users.set(file, users + 1);
    }
    return fits;
  }

  release(request: EngineRequest): void {
    for (const file of filesOf(request)) {
      const users = (this.#users.get(file) as number) - 1;
      if (users > 0) this.#users.set(file, users);
      else {
        this.#users.delete(file);
        this.#bytes -= file.length;
      }
    }
  }
}

function filesOf({ pictures }: EngineRequest): readonly Uint8Array[] {
  return [...new Set(pictures?.images.map(({ file }) => file))];
}
