// Models that fit only in turn: when one that is loaded makes way for one that waits. Pure; times are milliseconds
// since 1970.
//
// Loading takes time in which nobody is served, so a model stays for a multiple of what its own load took. That bounds
// the part of the time that goes into loads, and how long others wait for their turn.

/** How a loaded model is used: not at all, by requests whose answers nobody waits for, or by such that are awaited. */
type Use = 'idle' | 'background' | 'awaited';

export interface Turn {
  readonly loadedMs: number;
  /** How long its load took. */
  readonly loadMs: number;
  readonly use: Use;
  /** When an awaited request last used it. */
  readonly awaitedMs: number;
}

/** Bounds of what a load is taken to last. */
const SHORTEST_LOAD_MS = 500;
const LONGEST_LOAD_MS = 15_000;

/** Loads that a model stays after its own, by how it is used, where an awaited request wants its room, */
const STAY: Readonly<Record<Use, number>> = { idle: 1, background: 1, awaited: 4 };
/** and where a background one does: it waits for a pause, though not for ever. */
const STAY_FOR_BACKGROUND: Readonly<Record<Use, number>> = { idle: 1, background: 20, awaited: 40 };
/** A pause, in loads: a time without awaited requests. */
const PAUSE = 4;

/** From when on the model makes way. Until then it takes new requests, afterwards it ends those it has, and leaves. */
export function turnEndsMs({ loadedMs, loadMs, use, awaitedMs }: Turn, forBackground: boolean): number {
  const unitMs = Math.min(LONGEST_LOAD_MS, Math.max(SHORTEST_LOAD_MS, loadMs));
  if (!forBackground) return loadedMs + STAY[use] * unitMs;
  const longest = loadedMs + STAY_FOR_BACKGROUND.awaited * unitMs;
  if (use === 'awaited') return longest;
  // The pause is waited for within that time: a model that has just become idle must not begin another turn.
  const pauseMs = Math.max(loadedMs + STAY_FOR_BACKGROUND[use] * unitMs, awaitedMs + PAUSE * unitMs);
  return Math.min(longest, pauseMs);
}
