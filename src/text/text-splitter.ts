// Splits text by a regular expression, with the five behaviours of tokenizer files for matches.

export type SplitBehavior = 'Isolated' | 'Removed' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

/** A long text is split lazily. */
export type Pieces = readonly string[] | Generator<string>;

export type TextSplitter = (text: string) => Pieces;

/** In UTF-16 units. */
export const LONG_TEXT = 65_536;

interface Cut {
  readonly text: string;
  readonly matched: boolean;
}

/** `invert`: gaps count as matches. */
export function splitBy(regex: RegExp, behavior: SplitBehavior, invert = false): TextSplitter {
  if (behavior === 'Isolated') return (text) => isolate(regex, text);
  return (text) => {
    const cuts =
      behavior === 'Removed' ? remaining(regex, text, invert) : join(regex, text, invert, behavior);
    return text.length > LONG_TEXT ? cuts : [...cuts];
  };
}

export function splitInTurn(splitters: readonly TextSplitter[]): TextSplitter {
  if (splitters.length === 1) return splitters[0] as TextSplitter;
  return (text) => splitters.reduce<Pieces>((pieces, split) => cutFurther(pieces, split), [text]);
}

export function cutFurther(pieces: Pieces, cut: (piece: string, index: number) => Pieces): Pieces {
  if (!isList(pieces)) return cutEach(pieces, cut);
  // A single long text stays lazy.
  if (pieces.length === 1) return cut(pieces[0] as string, 0);
  return pieces.flatMap((piece, index) => [...cut(piece, index)]);
}

function isList(pieces: Pieces): pieces is readonly string[] {
  return Array.isArray(pieces);
}

function* cutEach(
  pieces: Generator<string>,
  cut: (piece: string, index: number) => Pieces,
): Generator<string> {
  let index = 0;
  for (const piece of pieces) yield* cut(piece, index++);
}

function isolate(regex: RegExp, text: string): Pieces {
  if (text.length === 1) return [text];
  if (text.length > LONG_TEXT) return textsOf(cutsOf(regex, text));
  const matches: readonly string[] = text.match(regex) ?? [];
  let covered = 0;
  for (const match of matches) covered += match.length;
  // Most expressions cover all of the text: the matches suffice, much faster.
  if (covered === text.length && !matches.includes('')) return matches;
  return [...textsOf(cutsOf(regex, text))];
}

function* textsOf(cuts: Iterable<Cut>): Generator<string> {
  for (const { text } of cuts) yield text;
}

function* cutsOf(regex: RegExp, text: string): Generator<Cut> {
  let end = 0;
  for (const match of text.matchAll(regex)) {
    if (match.index > end) yield { text: text.slice(end, match.index), matched: false };
    if (match[0] !== '') yield { text: match[0], matched: true };
    end = match.index + match[0].length;
  }
  if (end < text.length) yield { text: text.slice(end), matched: false };
}

function* remaining(regex: RegExp, text: string, invert: boolean): Generator<string> {
  for (const cut of cutsOf(regex, text)) if (cut.matched === invert) yield cut.text;
}

function* join(
  regex: RegExp,
  whole: string,
  invert: boolean,
  behavior: Exclude<SplitBehavior, 'Isolated' | 'Removed'>,
): Generator<string> {
  let piece: string | undefined;
  let previousMatched: boolean | undefined;
  for (const cut of cutsOf(regex, whole)) {
    const { text } = cut;
    const matched = cut.matched !== invert;
    const joins =
      (behavior === 'Contiguous' && matched === previousMatched) ||
      (behavior === 'MergedWithPrevious' && matched && previousMatched === false) ||
      (behavior === 'MergedWithNext' && !matched && previousMatched === true);
    if (!joins && piece !== undefined) yield piece;
    piece = joins ? (piece ?? '') + text : text;
    previousMatched = matched;
  }
  if (piece !== undefined) yield piece;
}

const digits = /\p{Nd}+/gu;
/** Oniguruma's `\w`: before it there is no `\b`. */
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;
const GROUP = 3;

/**
 * Splits numbers into groups of three digits from the right, as `\d{1,3}(?=(?:\d{3})*\b)` does, but in linear time: the
 * expression looks ahead to the end of the number at each digit.
 */
export function splitThousands(text: string): readonly string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const { index, 0: number } of text.matchAll(digits)) {
    const behind = index + number.length;
    // Two units hold any character.
    if (wordStart.test(text.slice(behind, behind + 2))) continue;
    if (index > end) pieces.push(text.slice(end, index));
    for (const group of groupsOf(number)) pieces.push(group);
    end = behind;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

function groupsOf(number: string): string[] {
  // Some digits have two units.
  const characters = [...number];
  const missing = (GROUP - (characters.length % GROUP)) % GROUP;
  return Array.from({ length: Math.ceil(characters.length / GROUP) }, (_, group) => {
    const end = (group + 1) * GROUP - missing;
    return characters.slice(Math.max(0, end - GROUP), end).join('');
  });
}
