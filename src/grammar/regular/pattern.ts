// Regular languages as trees, and their automata: regular expressions, numbers and formats are written so.

import { tooLarge } from '../grammar-error.ts';
import { type CharacterDfa, type CharacterEdge, distinct, MAX_STATES, trimmed } from './character-dfa.ts';
import { type CodePoints, classesOf, codePoints, partition, single, wordCharacters } from './code-points.ts';

export type Pattern =
  | { readonly kind: 'characters'; readonly set: CodePoints }
  | { readonly kind: 'sequence'; readonly parts: readonly Pattern[] }
  | { readonly kind: 'choice'; readonly options: readonly Pattern[] }
  | {
      readonly kind: 'repeat';
      readonly part: Pattern;
      readonly least: number;
      readonly most?: number | undefined;
    }
  /** `^` and `$`, `\b` and `\B`. */
  | { readonly kind: 'begin' | 'end' | 'border' | 'no-border' };

export function characters(set: CodePoints): Pattern {
  return { kind: 'characters', set };
}

export function range(first: string, last: string): Pattern {
  return characters(codePoints([[first.codePointAt(0) as number, last.codePointAt(0) as number]]));
}

export function sequenceOf(...parts: readonly Pattern[]): Pattern {
  return parts.length === 1 ? (parts[0] as Pattern) : { kind: 'sequence', parts };
}

export function choiceOf(...options: readonly Pattern[]): Pattern {
  return options.length === 1 ? (options[0] as Pattern) : { kind: 'choice', options };
}

export function repeatOf(part: Pattern, least: number, most?: number): Pattern {
  return { kind: 'repeat', part, least, most };
}

export function spelled(text: string): Pattern {
  return sequenceOf(
    ...Array.from(text, (character) => characters(single(character.codePointAt(0) as number))),
  );
}

export const nothing: Pattern = { kind: 'sequence', parts: [] };

const MAX_NFA_STATES = 100_000;

/** For whole texts. */
export function toDfa(pattern: Pattern): CharacterDfa {
  const nfa = new Nfa();
  const accept = nfa.add();
  const start = nfa.add();
  nfa.build(pattern, start, accept);
  return determinize(nfa, start, accept);
}

type Condition = 'begin' | 'end' | 'border' | 'no-border';

class Nfa {
  /** Epsilon edges: always, or only at the beginning or the end of the text or of a word. */
  readonly silent: { readonly to: number; readonly when: Condition | undefined }[][] = [];
  hasBorders = false;
  readonly reading: { readonly set: CodePoints; readonly to: number }[][] = [];

  add(): number {
    if (this.silent.length >= MAX_NFA_STATES) throw tooLarge('a regular expression');
    this.silent.push([]);
    this.reading.push([]);
    return this.silent.length - 1;
  }

  step(from: number, to: number, when?: Condition): void {
    (this.silent[from] as { to: number; when: Condition | undefined }[]).push({ to, when });
    this.hasBorders ||= when === 'border' || when === 'no-border';
  }

  build(pattern: Pattern, from: number, to: number): void {
    switch (pattern.kind) {
      case 'characters':
        (this.reading[from] as CharacterEdge[]).push({ set: pattern.set, to });
        break;
      case 'begin':
      case 'end':
      case 'border':
      case 'no-border':
        this.step(from, to, pattern.kind);
        break;
      case 'choice':
        for (const option of pattern.options) this.build(option, from, to);
        break;
      case 'sequence':
        this.#sequence(pattern.parts, from, to);
        break;
      case 'repeat':
        this.#repeat(pattern, from, to);
    }
  }

  #sequence(parts: readonly Pattern[], from: number, to: number): void {
    let at = from;
    for (const [index, part] of parts.entries()) {
      const next = index === parts.length - 1 ? to : this.add();
      // Separate states keep a loop of one part from leaking into the next.
      this.build(part, at, next);
      at = next;
    }
    if (parts.length === 0) this.step(from, to);
  }

  #repeat({ part, least, most }: Extract<Pattern, { kind: 'repeat' }>, from: number, to: number): void {
    let at = this.add();
    this.step(from, at);
    for (let count = 0; count < least; count++) {
      const next = this.add();
      this.build(part, at, next);
      at = next;
    }
    if (most === undefined) {
      const loop = this.add();
      this.step(at, loop);
      const back = this.add();
      this.build(part, loop, back);
      this.step(back, loop);
      this.step(loop, to);
      return;
    }
    for (let count = least; count < most; count++) {
      this.step(at, to);
      const next = this.add();
      this.build(part, at, next);
      at = next;
    }
    this.step(at, to);
  }

  closure(states: Iterable<number>, holds: ReadonlySet<Condition>): number[] {
    const seen = new Set<number>(states);
    for (const state of seen) {
      for (const { to, when } of this.silent[state] as { to: number; when: Condition | undefined }[]) {
        if (when === undefined || holds.has(when)) seen.add(to);
      }
    }
    return [...seen].sort((a, b) => a - b);
  }
}

const never: ReadonlySet<Condition> = new Set();
const atBegin: ReadonlySet<Condition> = new Set<Condition>(['begin']);

/** What holds between two characters; `undefined` stands for the beginning or the end of the text. */
function conditions(
  before: boolean | undefined,
  after: boolean | undefined,
  isBegin: boolean,
): ReadonlySet<Condition> {
  const isBorder = (before ?? false) !== (after ?? false);
  return new Set<Condition>([
    ...(isBegin ? (['begin'] as const) : []),
    ...(after === undefined ? (['end'] as const) : []),
    isBorder ? 'border' : 'no-border',
  ]);
}

/** A state is a set of states, whether the text begins there and, where that matters, whether a word was read last. */
interface Subset {
  readonly states: readonly number[];
  readonly isBegin: boolean;
  readonly inWord: boolean;
}

function determinize(nfa: Nfa, start: number, accept: number): CharacterDfa {
  const sets = nfa.reading.flatMap((edges) => edges.map(({ set }) => set));
  const parts = partition(distinct(nfa.hasBorders ? [...sets, wordCharacters] : sets));
  const edgeClasses = nfa.reading.map((edges) =>
    edges.map(({ set, to }) => ({ classes: classesOf(parts, set), to })),
  );
  const words = new Set(nfa.hasBorders ? classesOf(parts, wordCharacters) : []);
  const subsets: Subset[] = [{ states: nfa.closure([start], atBegin), isBegin: true, inWord: false }];
  const numbers = new Map<string, number>([['begin', 0]]);
  const table: Map<number, number>[] = [];
  for (let state = 0; state < subsets.length; state++) {
    const row = new Map<number, number>();
    for (const [one, reached] of targetsOf(subsets[state] as Subset, nfa, edgeClasses, words)) {
      const inWord = words.has(one);
      const states = nfa.closure(reached, never);
      const name = `${inWord ? 'w' : ''}${states.join()}`;
      let number = numbers.get(name);
      if (number === undefined) {
        number = subsets.length;
        if (number >= MAX_STATES) throw tooLarge('a regular expression');
        numbers.set(name, number);
        subsets.push({ states, isBegin: false, inWord });
      }
      row.set(one, number);
    }
    table.push(row);
  }
  const accepts = subsets.map(({ states, isBegin, inWord }) =>
    nfa.closure(states, conditions(inWord, undefined, isBegin)).includes(accept),
  );
  return trimmed(table, accepts, parts);
}

/** By class of characters, the states that it leads to. */
function targetsOf(
  { states, isBegin, inWord }: Subset,
  nfa: Nfa,
  edgeClasses: readonly (readonly { readonly classes: readonly number[]; readonly to: number }[])[],
  words: ReadonlySet<number>,
): Map<number, Set<number>> {
  const targets = new Map<number, Set<number>>();
  const read = (members: readonly number[], reads: (one: number) => boolean) => {
    for (const member of members) {
      for (const { classes, to } of edgeClasses[member] ?? []) {
        for (const one of classes) {
          if (!reads(one)) continue;
          const known = targets.get(one);
          if (known === undefined) targets.set(one, new Set([to]));
          else known.add(to);
        }
      }
    }
  };
  if (!nfa.hasBorders) read(states, () => true);
  else {
    for (const isWord of [true, false])
      read(nfa.closure(states, conditions(inWord, isWord, isBegin)), (one) => words.has(one) === isWord);
  }
  return targets;
}
