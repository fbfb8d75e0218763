// Cuts text by a regular expression, and says what becomes of the matches: the five ways tokenizer files know.

export type SplitBehavior = 'Isolated' | 'Removed' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

/** Cuts one piece of text into smaller ones. */
export type TextSplitter = (text: string) => readonly string[];

interface Cut {
  readonly text: string;
  readonly matched: boolean;
}

/** `invert`: the text between the matches is what counts as matched. */
export function splitBy(regex: RegExp, behavior: SplitBehavior, invert = false): TextSplitter {
  // Matches and gaps alike become pieces of their own.
  if (behavior === 'Isolated') return (text) => isolate(regex, text);
  return (text) => {
    const cuts = cutsOf(regex, text).map((cut) => ({ text: cut.text, matched: cut.matched !== invert }));
    if (behavior === 'Removed') return cuts.filter((cut) => !cut.matched).map((cut) => cut.text);
    return join(cuts, behavior);
  };
}

export function splitInTurn(splitters: readonly TextSplitter[]): TextSplitter {
  if (splitters.length === 1) return splitters[0] as TextSplitter;
  return (text) => splitters.reduce<readonly string[]>((pieces, split) => pieces.flatMap(split), [text]);
}

function isolate(regex: RegExp, text: string): readonly string[] {
  if (text.length === 1) return [text];
  const matches: readonly string[] = text.match(regex) ?? [];
  let covered = 0;
  for (const match of matches) covered += match.length;
  // Most expressions cover all of the text: then the matches are the answer, much faster.
  if (covered === text.length && !matches.includes('')) return matches;
  return cutsOf(regex, text).map((cut) => cut.text);
}

function cutsOf(regex: RegExp, text: string): Cut[] {
  const cuts: Cut[] = [];
  let end = 0;
  for (const match of text.matchAll(regex)) {
    if (match.index > end) cuts.push({ text: text.slice(end, match.index), matched: false });
    if (match[0] !== '') cuts.push({ text: match[0], matched: true });
    end = match.index + match[0].length;
  }
  if (end < text.length) cuts.push({ text: text.slice(end), matched: false });
  return cuts;
}

function join(cuts: readonly Cut[], behavior: Exclude<SplitBehavior, 'Isolated' | 'Removed'>): string[] {
  const pieces: string[] = [];
  let previousMatched: boolean | undefined;
  for (const { text, matched } of cuts) {
    const joins =
      (behavior === 'Contiguous' && matched === previousMatched) ||
      (behavior === 'MergedWithPrevious' && matched && previousMatched === false) ||
      (behavior === 'MergedWithNext' && !matched && previousMatched === true);
    if (joins) pieces.push((pieces.pop() ?? '') + text);
    else pieces.push(text);
    previousMatched = matched;
  }
  return pieces;
}
