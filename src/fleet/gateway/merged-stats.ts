// The statistics of several engines as those of one.

import type { EngineStats } from '../../engine/engine.ts';

export function mergeStats(all: readonly EngineStats[]): EngineStats {
  return all.reduce((a, b) => addNumbers(a, b) as EngineStats);
}

/** Adds numbers, adds `queues` element by element, and concatenates other arrays; takes anything else from the first. */
function addNumbers(a: unknown, b: unknown, key = ''): unknown {
  // A name, not an amount.
  if (key === 'priority') return a;
  if (key === 'oldestMs') return Math.max(a as number, b as number);
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (Array.isArray(a) && Array.isArray(b)) {
    return key === 'queues' ? a.map((one, i) => addNumbers(one, b[i])) : [...a, ...b];
  }
  if (isRecord(a) && isRecord(b)) {
    return Object.fromEntries(
      Object.entries(a).map(([name, value]) => [name, addNumbers(value, b[name], name)]),
    );
  }
  return a;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
