// `uniqueItems` where an item is one of few values: a state for each set of those that have been read.

import { numberNode } from './number.ts';
import { kindsOf, listedValues, numberRules, type Plain } from './plain-schemas.ts';
import { isEqual } from './schema.ts';

/** There are 2^12 sets. */
export const MAX_UNIQUE = 12;
/** Sets of all arrays of a schema together. */
export const MAX_SETS = 2 ** 15;

/** The values that alternatives allow; undefined where they are many or without end. `isValid`: against all schemas. */
export function fewValues(
  alternatives: readonly Plain[],
  isValid: (value: unknown) => boolean,
  most: number,
): unknown[] | undefined {
  const found: unknown[] = [];
  for (const plain of alternatives) {
    const values = listedValues(plain) ?? valuesOfKinds(plain, most);
    if (values === undefined) return undefined;
    for (const value of values) {
      if (isValid(value) && !found.some((one) => isEqual(one, value))) found.push(value);
    }
    if (found.length > most) return undefined;
  }
  return found;
}

function valuesOfKinds(plain: Plain, most: number): unknown[] | undefined {
  const values: unknown[] = [];
  for (const kind of kindsOf(plain)) {
    if (kind === 'null') values.push(null);
    else if (kind === 'boolean') values.push(true, false);
    else if (kind === 'fraction') {
      if (numberNode(numberRules(plain, new Set(['fraction'] as const))) !== undefined) return undefined;
    } else if (kind === 'integer') {
      const { least: low, most: high } = numberRules(plain, new Set(['integer'] as const));
      if (!(high - low <= most)) return undefined;
      for (let value = Math.ceil(low); value <= high; value++) values.push(value);
    } else return undefined;
  }
  return values;
}
