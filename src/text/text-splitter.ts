// Cuts text by a regular expression, and says what becomes of the matches: the five ways tokenizer files know.

export type SplitBehavior = 'Isolated' | 'Removed' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

/** Those of a long text are cut as they are asked for. */
export type Pieces = readonly string[] | Generator<string>;

/** Cuts one piece of text into smaller ones. */
export type TextSplitter = (text: string) => Pieces;

/** In UTF-16 units: cutting one takes a while. */
export const LONG_TEXT = 65_536;

interface Cut {
  readonly text: string;
  readonly matched: boolean;
}

/** `invert`: the text between the matches is what counts as matched. */
export function splitBy(regex: RegExp, behavior: SplitBehavior, invert = false): TextSplitter {
  // Matches and gaps alike become pieces of their own.
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
  // A lone long text is cut as it is asked for, too.
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
  // Most expressions cover all of the text: then the matches are the answer, much faster.
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
/** What `\w` is: where it follows, a number does not end. */
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;
const GROUP = 3;

export function splitThousands(text: string): readonly string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const { index, 0: number } of text.matchAll(digits)) {
    const behind = index + number.length;
    // Two units hold whatever character follows.
    if (wordStart.test(text.slice(behind, behind + 2))) continue;
    if (index > end) pieces.push(text.slice(end, index));
    for (const group of groupsOf(number)) pieces.push(group);
    end = behind;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

function groupsOf(number: string): string[] {
  // Some digits take two units.
  const characters = [...number];
  const missing = (GROUP - (characters.length % GROUP)) % GROUP;
  return Array.from({ length: Math.ceil(characters.length / GROUP) }, (_, group) => {
    const end = (group + 1) * GROUP - missing;
    return characters.slice(Math.max(0, end - GROUP), end).join('');
  });
}
