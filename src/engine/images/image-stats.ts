// What an engine says of the images it is asked about: counts since its start, and what it keeps.

export interface ImageStats {
  /** Requests that wait for their images. */
  readonly waiting: number;
  /** Whether there is anything to compute now: others wait for room. */
  readonly busy: boolean;
  /** Images that were computed. */
  readonly computed: number;
  /** Images that were there, or being computed, when they were asked for. */
  readonly hits: number;
  /** Images whose features came from the disk. */
  readonly loaded: number;
  /** Parts of towers that were computed: an engine that computes nothing else is alive. */
  readonly pieces: number;
  /** Images whose features are kept, or are being computed. */
  readonly kept: number;
  readonly bytes: number;
  /** Of them, those of requests that run. */
  readonly usedBytes: number;
  readonly limitBytes: number;
}

/** Whether there is nothing new to say; pieces alone are not. */
export function saysSame(a: ImageStats, b: ImageStats | undefined): boolean {
  return (
    a.waiting === b?.waiting &&
    a.computed === b.computed &&
    a.hits === b.hits &&
    a.loaded === b.loaded &&
    a.kept === b.kept &&
    a.bytes === b.bytes &&
    a.usedBytes === b.usedBytes
  );
}
