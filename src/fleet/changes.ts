// What differs between two plain values, and the later value from the earlier one and the difference. A difference of objects
// has the fields that differ, `null` for one that is gone; of arrays of equal length the places, where it is shorter than the
// array. Anything else is given whole. No value contains `null`.

type Fields = Readonly<Record<string, unknown>>;

/** Undefined where they are equal. */
export function changeOf(before: unknown, after: unknown): unknown {
  if (Object.is(before, after)) return undefined;
  if (Array.isArray(before) && Array.isArray(after)) return changeOfArrays(before, after);
  if (!isFields(before) || !isFields(after)) return after;
  let change: Record<string, unknown> | undefined;
  for (const name in after) {
    const own = changeOf(before[name], after[name]);
    if (own === undefined) continue;
    change ??= {};
    change[name] = own;
  }
  for (const name in before) {
    if (before[name] === undefined || after[name] !== undefined) continue;
    change ??= {};
    change[name] = null;
  }
  return change;
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
  if (before.length !== after.length) return after;
  const changes: Record<string, unknown> = {};
  let isChanged = false;
  for (const [place, value] of after.entries()) {
    const own = changeOf(before[place], value);
    if (own === undefined) continue;
    if (!after.every(isFields)) return after;
    changes[place] = own;
    isChanged = true;
  }
  return isChanged ? changes : undefined;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
