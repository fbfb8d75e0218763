// Blocks that an action on a slot holds next to those of sequences, until it has ended or has to give way to them.

/** Sequences needed the memory. */
export class GaveWay extends Error {
  override readonly name = 'GaveWay';

  constructor() {
    super('its blocks had to give way to requests, whose memory is scarce now');
  }
}

export class Holds {
  readonly #releases = new Set<() => void>();

  add(release: () => void): Hold {
    const releases = this.#releases;
    releases.add(release);
    return {
      get isHeld() {
        return releases.has(release);
      },
      assertHeld() {
        if (!releases.has(release)) throw new GaveWay();
      },
      release() {
        if (releases.delete(release)) release();
      },
    };
  }

  /** Between steps: nobody copies from these blocks, or to them, any more. */
  giveWay(): void {
    for (const release of this.#releases) release();
    this.#releases.clear();
  }
}

export interface Hold {
  readonly isHeld: boolean;
  /** Throws where it gave way. */
  assertHeld(): void;
  release(): void;
}
