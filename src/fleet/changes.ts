// What differs between two plain values, and the later value from the earlier one and the difference. A difference of objects
// has the fields that differ, `null` for one that is gone; of arrays of equal length the places, where it is shorter than the
// array. Anything else is given whole. No value contains `null`.

type Fields = Readonly<Record<string, unknown>>;

/** Undefined where they are equal. */
export function changeOf(before: unknown, after: unknown): unknown {
  if (Object.is(before, after)) return undefined;
  if (Array.isArray(before) && Array.isArray(after)) return changeOfArrays(before, after);
  if (!isFields(before) || !isFields(after)) return after;
  const change: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const own = changeOf(before[name], after[name]);
    if (own !== undefined) change[name] = own;
    else if (before[name] !== undefined && after[name] === undefined) change[name] = null;
  }
  return Object.keys(change).length === 0 ? undefined : change;
}

/** Shares with the earlier value whatever is not changed. */
export function applied(before: unknown, change: unknown): unknown {
  if (change === undefined) return before;
  if (!isFields(change)) return change;
  if (Array.isArray(before)) {
    const after = [...before];
    for (const place in change) after[Number(place)] = applied(before[Number(place)], change[place]);
    return after;
  }
  if (!isFields(before)) return change;
  const after: Record<string, unknown> = { ...before };
  for (const name in change) {
    if (change[name] === null) delete after[name];
    else after[name] = applied(before[name], change[name]);
  }
  return after;
}

/** Places alone tell objects of an array apart: numbers are given whole, they are no longer than their places. */
function changeOfArrays(before: readonly unknown[], after: readonly unknown[]): unknown {
  const changes = Array.from(after, (value, place) => changeOf(before[place], value));
  if (before.length === after.length) {
    if (changes.every((change) => change === undefined)) return undefined;
    if (after.every(isFields))
      return Object.fromEntries(
        [...changes.entries()].filter(([, change]) => change !== undefined).map(([i, c]) => [String(i), c]),
      );
  }
  return after;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
