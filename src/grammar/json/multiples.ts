// `multipleOf` as a regular language: digits are divided as they are written.

import { tooLarge } from '../grammar-error.ts';
import { type CharacterDfa, difference, intersection } from '../regular/character-dfa.ts';
import { decimalOf } from './decimal.ts';

/** Beyond that, a double may differ from its digits, and so may divisibility. */
export const EXACT_DIGITS = 15;
const MAX_STATES = 12_000;

type States = CharacterDfa['states'][number][];

function digitEdges(to: (digit: number) => number | undefined) {
  return Array.from({ length: 10 }, (_, digit) => digit).flatMap((digit) => {
    const target = to(digit);
    return target === undefined ? [] : [{ set: [[0x30 + digit, 0x30 + digit]] as const, to: target }];
  });
}

const pointTo = (to: number) => ({ set: [[0x2e, 0x2e]] as const, to });

/** Digits with or without a point, few enough to be exact. State: how many digits, twice: before and after the point. */
const exact: CharacterDfa = (() => {
  const states: States = [];
  const after = EXACT_DIGITS + 1;
  for (let count = 0; count <= EXACT_DIGITS; count++) {
    const more = digitEdges(() => (count < EXACT_DIGITS ? count + 1 : undefined));
    states.push({ accepts: count > 0, edges: count > 0 ? [...more, pointTo(after + count)] : more });
  }
  for (let count = 0; count <= EXACT_DIGITS; count++) {
    states.push({
      accepts: count > 1,
      edges: digitEdges(() => (count < EXACT_DIGITS ? after + count + 1 : undefined)),
    });
  }
  return { states };
})();

export function multiples(divisor: number): CharacterDfa {
  return intersection(exact, divisible(divisor));
}

export function otherThanMultiples(divisor: number): CharacterDfa {
  return difference(exact, divisible(divisor));
}

/**
 * Of a divisor p / 10^k a number is a multiple where its digits, with k of them after the point, are a multiple of p, and
 * all others are zeros. A state is the remainder so far, and how many digits after the point there were.
 */
function divisible(divisor: number): CharacterDfa {
  const { whole, fraction } = decimalOf(divisor);
  const places = fraction.length;
  const p = Number(whole + fraction);
  if (!Number.isSafeInteger(p * 10) || p * (places + 2) > MAX_STATES) throw tooLarge(`multipleOf ${divisor}`);
  /** Digits after the point: -1 before it. */
  const number = (remainder: number, after: number) => 1 + (after + 1) * p + remainder;
  const step = (remainder: number, digit: number) => (remainder * 10 + digit) % p;
  const states: States = [{ accepts: false, edges: digitEdges((digit) => number(digit % p, -1)) }];
  for (let after = -1; after <= places; after++) {
    for (let remainder = 0; remainder < p; remainder++) {
      let rest = remainder;
      for (let at = Math.max(after, 0); at < places; at++) rest = step(rest, 0);
      const next = after < 0 ? -1 : Math.min(after + 1, places);
      const isPast = after === places;
      const edges = digitEdges((digit) => {
        if (isPast) return digit === 0 ? number(remainder, places) : undefined;
        return number(step(remainder, digit), next);
      });
      if (after < 0) edges.push(pointTo(number(remainder, 0)));
      states.push({ accepts: rest === 0, edges });
    }
  }
  return { states };
}
