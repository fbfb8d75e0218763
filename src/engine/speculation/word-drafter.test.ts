import { describe, expect, it } from 'vitest';
import { vocabularyTables } from '../../grammar/vocabulary.ts';
import { WordDrafter } from './word-drafter.ts';

const pieces = ['Ber', 'lin', ' Ber', 'l', 'in', '"', '."', ' in', 'B', 'er', '.', ' ', 'Be', 'x', '<end>'];
const vocabulary = vocabularyTables({
  vocabSize: pieces.length,
  eosIds: new Set([pieces.length - 1]),
  stripsLeadingSpace: false,
  tokenBytes: (id) => new TextEncoder().encode(pieces[id] ?? ''),
  isSpecial: (id) => id === pieces.length - 1,
});
const id = (piece: string) => pieces.indexOf(piece);
const ids = (...list: string[]) => Int32Array.from(list.map(id));
const END = id('"');

/** Behind a prompt that tells of somebody in Berlin. */
function drafter(...answer: string[]): WordDrafter {
  const prompt = ids('x', ' in', ' Ber', 'lin', '.');
  return new WordDrafter(vocabulary, Int32Array.from([...prompt, ...ids(...answer)]), prompt.length);
}

describe('words of the prompt', () => {
  it('are guessed where one has begun behind something else, in tokens of what is left', () => {
    expect(drafter('"', 'B').guess(END)).toEqual({ token: id('er'), kind: 'word1' });
    expect(drafter('"', 'Ber').guess(END)).toEqual({ token: id('lin'), kind: 'word3' });
  });

  it('end where they end in the prompt', () => {
    expect(drafter('"', 'Ber', 'lin').guess(END)).toEqual({ token: END, kind: 'word-end' });
    expect(drafter('"', 'Ber', 'lin').guess()).toBeUndefined();
  });

  it('are not guessed where none has begun, and where it is another one', () => {
    expect(drafter().guess(END)).toBeUndefined();
    expect(drafter('"').guess(END)).toBeUndefined();
    expect(drafter('"', 'Be', 'x').guess(END)).toBeUndefined();
  });

  it('may be imagined and forgotten', () => {
    const words = drafter('"', 'B');
    words.imagine(id('er'));
    expect(words.guess(END)?.token).toBe(id('lin'));
    words.imagine(END);
    words.imagine(id('x'));
    words.forget();
    expect(words.guess(END)?.token).toBe(id('er'));
    words.accept(id('er'));
    expect(words.guess(END)?.token).toBe(id('lin'));
  });

  it('need not be short, nor tokens known', () => {
    const words = drafter('"', ...new Array(100).fill('x'));
    expect(words.guess(END)).toBeUndefined();
    words.accept(1_000_000);
    words.accept(id('.'));
    words.accept(id('B'));
    expect(words.guess(END)?.token).toBe(id('er'));
  });
});
