// JSON numbers as regular languages. Bounds compare digits: plain, or with one digit before the point and an
// exponent, as programs write very large and very small numbers. Numbers beyond a double are excluded: they would be
// read as infinity.

import { GrammarError, tooLarge } from '../grammar-error.ts';
import { type CharacterDfa, difference, intersection, union } from '../regular/character-dfa.ts';
import {
  choiceOf,
  nothing,
  type Pattern,
  range,
  repeatOf,
  sequenceOf,
  spelled,
  toDfa,
} from '../regular/pattern.ts';
import type { Node } from '../rules.ts';
import { type Decimal, decimalOf } from './decimal.ts';
import { EXACT_DIGITS, multiples, otherThanMultiples } from './multiples.ts';

export interface NumberRules {
  readonly kinds: 'integers' | 'fractions' | 'all';
  /** Both included. */
  readonly least: number;
  readonly most: number;
  readonly multiplesOf: readonly number[];
  readonly notMultiplesOf: readonly number[];
  readonly excluded: readonly number[];
}

export const anyNumber: NumberRules = {
  kinds: 'all',
  least: -Number.MAX_VALUE,
  most: Number.MAX_VALUE,
  multiplesOf: [],
  notMultiplesOf: [],
  excluded: [],
};

const MAX_EXCLUDED = 200;
/** Digits before the point, without an exponent. Programs write at most twenty, except for integers. */
const MAX_DIGITS = 100;
const MAX_FRACTION = 60;
/** Digits after the point, with an exponent. Programs write at most sixteen. */
const MAX_MANTISSA = 20;
/** From here on programs write integers with an exponent. */
const WHOLE_EXPONENT = 21;
const MIN_EXPONENT = -400;
/** Of a number that is not read as zero. */
const SMALLEST_EXPONENT = -323;
const MAX_EXPONENT = 308;

const digit = range('0', '9');
const nonzero = range('1', '9');
const digits = repeatOf(digit, 0);
const fraction = sequenceOf(spelled('.'), repeatOf(digit, 1));
const anyFraction = repeatOf(fraction, 0, 1);
const point = choiceOf(spelled('e'), spelled('E'));

export function numberNode(rules: NumberRules): Node | undefined {
  if (rules.excluded.length > MAX_EXCLUDED) throw tooLarge('a list of numbers');
  const options = rangesOf(rules).flatMap(([least, most]) => rangeNodes(rules, least, most));
  return options.length === 0 ? undefined : { kind: 'choice', options };
}

/** Between the excluded numbers. */
function rangesOf({ least, most, excluded }: NumberRules): [least: number, most: number][] {
  const holes = [...new Set(excluded)]
    .filter((value) => value >= least && value <= most)
    .sort((a, b) => a - b);
  const starts = [least, ...holes.map(nextUp)];
  const ends = [...holes.map(nextDown), most];
  return starts
    .map((start, at): [number, number] => [start, ends[at] as number])
    .filter(([start, end]) => start <= end);
}

function rangeNodes(rules: NumberRules, least: number, most: number): Node[] {
  const options: Node[] = [];
  const add = (sign: string, low: number, high: number) => {
    const dfa = magnitudes(rules, low, high);
    if (dfa.states.length === 0) return;
    const language: Node = { kind: 'language', dfa, encoding: 'plain' };
    options.push({ kind: 'sequence', parts: [{ kind: 'text', text: sign }, language] });
  };
  if (most >= 0) add('', Math.max(0, least), most);
  // Zero may have a sign.
  if (least < 0) add('-', Math.max(0, -most), -least);
  return options;
}

/** Turns an exclusive bound into an inclusive one. */
export function nextUp(value: number): number {
  if (value === 0) return Number.MIN_VALUE;
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  bits.setBigInt64(0, bits.getBigInt64(0) + (value > 0 ? 1n : -1n));
  return bits.getFloat64(0);
}

export function nextDown(value: number): number {
  return -nextUp(-value);
}

const known = new Map<string, CharacterDfa>();
const MAX_KNOWN = 256;

function magnitudes(rules: NumberRules, low: number, high: number): CharacterDfa {
  const { kinds, multiplesOf, notMultiplesOf } = rules;
  const key = [kinds, low, high, multiplesOf.join(), notMultiplesOf.join()].join(' ');
  const found = known.get(key);
  if (found !== undefined) return found;
  const isDivided = multiplesOf.length + notMultiplesOf.length > 0;
  let dfa = intersection(toDfa(atLeast(low)), toDfa(atMost(high)));
  if (kinds === 'integers') dfa = intersection(dfa, toDfa(wholeNumber));
  if (kinds === 'fractions') dfa = intersection(dfa, fractionalNumber());
  if (isDivided && low >= 10 ** EXACT_DIGITS) {
    const message = `'multipleOf' cannot be enforced for numbers of more than ${EXACT_DIGITS} digits`;
    throw new GrammarError('unsupported', message, 'multipleOf');
  }
  for (const divisor of multiplesOf) dfa = intersection(dfa, multiples(divisor));
  for (const divisor of notMultiplesOf) dfa = intersection(dfa, otherThanMultiples(divisor));
  // Unusual spellings, such as 12E3, only without bounds.
  const isFree = kinds === 'all' && !isDivided && low === 0 && high === Number.MAX_VALUE;
  if (isFree) dfa = toDfa(choiceOf(loose, atMost(high)));
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(key, dfa);
  return dfa;
}

/**
 * No integer, as a double either: among the digits after the point that a double tells apart, one is no zero and one no
 * nine. Or an exponent that makes it less than one, and not so small that it is read as zero.
 */
function fractionalNumber(): CharacterDfa {
  const [spelledOut, nearlyWhole]: [Pattern[], Pattern[]] = [[], []];
  for (let before = 1; before < EXACT_DIGITS; before++) {
    const whole = before === 1 ? digit : sequenceOf(nonzero, repeatOf(digit, before - 1, before - 1));
    const exact = EXACT_DIGITS - before;
    const start = sequenceOf(whole, spelled('.'));
    spelledOut.push(sequenceOf(start, repeatOf(spelled('0'), 0, exact - 1), nonzero, digits));
    nearlyWhole.push(sequenceOf(start, repeatOf(spelled('9'), exact, exact), digits));
  }
  const plain = difference(toDfa(choiceOf(...spelledOut)), toDfa(choiceOf(...nearlyWhole)));
  return union(plain, toDfa(scientific(anyMantissa, SMALLEST_EXPONENT, -1)));
}

const loose = sequenceOf(
  choiceOf(spelled('0'), sequenceOf(nonzero, repeatOf(digit, 0, 19))),
  anyFraction,
  point,
  choiceOf(
    sequenceOf(
      repeatOf(spelled('+'), 0, 1),
      repeatOf(spelled('0'), 0, 2),
      choiceOf(digit, sequenceOf(nonzero, digit)),
    ),
    sequenceOf(repeatOf(spelled('+'), 0, 1), spelled('1'), digit, digit),
    sequenceOf(spelled('-'), repeatOf(digit, 1, 3)),
  ),
);

/** Plain digits, or an exponent large enough for an integer. */
const wholeNumber = choiceOf(
  sequenceOf(digit, digits),
  sequenceOf(
    nonzero,
    repeatOf(sequenceOf(spelled('.'), repeatOf(digit, 1, WHOLE_EXPONENT - 1)), 0, 1),
    point,
    exponents(WHOLE_EXPONENT, MAX_EXPONENT),
  ),
);

function scientificOf(value: number): Decimal & { readonly exponent: number } {
  const [mantissa = '0', power = '0'] = value.toExponential().split('e');
  const [whole = '0', part = ''] = mantissa.split('.');
  return { whole, fraction: part, exponent: Number(power) };
}

function atLeast(low: number): Pattern {
  const plain = plainNumbers(low, aboveDigits);
  if (low === 0) return choiceOf(plain, scientific(anyMantissa, MIN_EXPONENT, MAX_EXPONENT));
  const { exponent, ...mantissa } = scientificOf(low);
  return choiceOf(
    plain,
    scientific(anyMantissa, exponent + 1, MAX_EXPONENT),
    scientific(compared(mantissa, aboveDigits), exponent, exponent),
  );
}

function atMost(high: number): Pattern {
  const plain = plainNumbers(high, belowDigits);
  if (high === 0) return plain;
  const { exponent, ...mantissa } = scientificOf(high);
  return choiceOf(
    plain,
    scientific(anyMantissa, MIN_EXPONENT, exponent - 1),
    scientific(compared(mantissa, belowDigits), exponent, exponent),
  );
}

// Bounds the digits, so that a model must come to the exponent.
const anyMantissa = sequenceOf(
  nonzero,
  repeatOf(sequenceOf(spelled('.'), repeatOf(digit, 1, MAX_MANTISSA)), 0, 1),
);

function scientific(mantissa: Pattern, first: number, last: number): Pattern {
  if (first > last) return choiceOf();
  return sequenceOf(mantissa, point, exponents(first, last));
}

/** Python writes a zero before a single digit. */
function exponents(first: number, last: number): Pattern {
  const zero = repeatOf(spelled('0'), 0, 1);
  const options: Pattern[] = [];
  if (first < 0) {
    options.push(
      sequenceOf(spelled('-'), zero, wholeBetween(Math.max(1, -last), Math.min(-first, -MIN_EXPONENT))),
    );
  }
  if (last >= 0) {
    const plus = repeatOf(spelled('+'), 0, 1);
    options.push(sequenceOf(plus, zero, wholeBetween(Math.max(0, first), last)));
  }
  return choiceOf(...options);
}

function wholeBetween(first: number, last: number): Pattern {
  const options: Pattern[] = [];
  for (let low = first; low <= last; ) {
    const high = Math.min(last, 10 ** String(low).length - 1);
    options.push(sameLength(String(low), String(high)));
    low = high + 1;
  }
  return choiceOf(...options);
}

function sameLength(low: string, high: string): Pattern {
  if (low === '') return nothing;
  const [a, b] = [Number(low[0]), Number(high[0])];
  const rest = low.length - 1;
  if (a === b) return sequenceOf(spelled(low.slice(0, 1)), sameLength(low.slice(1), high.slice(1)));
  const between =
    a + 1 < b ? [sequenceOf(range(String(a + 1), String(b - 1)), repeatOf(digit, rest, rest))] : [];
  return choiceOf(
    sequenceOf(spelled(low.slice(0, 1)), sameLength(low.slice(1), '9'.repeat(rest))),
    ...between,
    sequenceOf(spelled(high.slice(0, 1)), sameLength('0'.repeat(rest), high.slice(1))),
  );
}

type DigitRange = (digit: number) => Pattern;

const none = choiceOf();
const aboveDigits: DigitRange = (value) => (value === 9 ? none : range(String(value + 1), '9'));
const belowDigits: DigitRange = (value) => (value === 0 ? none : range('0', String(value - 1)));

/** Plain digits on one side of a bound, or equal to it. */
function plainNumbers(bound: number, beyond: DigitRange): Pattern {
  const isAbove = beyond === aboveDigits;
  const { whole, fraction: part } = shortened(decimalOf(bound), isAbove);
  if (whole.length > MAX_DIGITS)
    return isAbove ? none : choiceOf(sequenceOf(spelled('0'), anyFraction), plainDigits(0, MAX_DIGITS - 1));
  const others = isAbove ? plainDigits(whole.length, MAX_DIGITS - 1) : plainDigits(0, whole.length - 2);
  const zero = !isAbove && whole.length > 1 ? sequenceOf(spelled('0'), anyFraction) : none;
  return choiceOf(zero, others, compared({ whole, fraction: part }, beyond));
}

/** Rounds a bound too close to zero to be written without an exponent, to the safe side. */
function shortened(bound: Decimal, isAbove: boolean): Decimal {
  if (bound.fraction.length <= MAX_FRACTION) return bound;
  return { whole: '0', fraction: isAbove ? '1'.padStart(MAX_FRACTION, '0') : '' };
}

function plainDigits(least: number, most: number): Pattern {
  return least > most ? none : sequenceOf(nonzero, repeatOf(digit, least, most), anyFraction);
}

/** With as many digits before the point as the bound. */
function compared({ whole, fraction: part }: Decimal, beyond: DigitRange): Pattern {
  const options: Pattern[] = [];
  for (let at = 0; at < whole.length; at++) {
    const value = Number(whole[at]);
    const isFirst = at === 0 && whole.length > 1;
    const different =
      beyond === belowDigits && isFirst ? (value > 1 ? range('1', String(value - 1)) : none) : beyond(value);
    const rest = repeatOf(digit, whole.length - at - 1, whole.length - at - 1);
    options.push(sequenceOf(spelled(whole.slice(0, at)), different, rest, anyFraction));
  }
  options.push(sequenceOf(spelled(whole), fractionFrom(part, beyond)));
  return choiceOf(...options);
}

function fractionFrom(part: string, beyond: DigitRange): Pattern {
  const isAbove = beyond === aboveDigits;
  const options: Pattern[] = [];
  for (let at = 0; at < part.length; at++) {
    const before = spelled(`.${part.slice(0, at)}`);
    options.push(sequenceOf(before, beyond(Number(part[at])), digits));
    // A shorter fraction has zeros there.
    if (!isAbove) options.push(at === 0 ? nothing : before);
  }
  if (part === '') {
    options.push(isAbove ? anyFraction : repeatOf(sequenceOf(spelled('.'), repeatOf(spelled('0'), 1)), 0, 1));
  } else {
    options.push(sequenceOf(spelled(`.${part}`), isAbove ? digits : repeatOf(spelled('0'), 0)));
  }
  return choiceOf(...options);
}
