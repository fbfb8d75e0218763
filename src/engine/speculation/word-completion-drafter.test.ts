import { describe, expect, it } from 'vitest';
import { vocabularyTables } from '../../grammar/vocabulary.ts';
import { WordCompletionDrafter } from './word-completion-drafter.ts';

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

/** After a prompt that tells of somebody in Berlin. */
function drafter(...answer: string[]): WordCompletionDrafter {
  const prompt = ids('x', ' in', ' Ber', 'lin', '.');
  return new WordCompletionDrafter(
    vocabulary,
    Int32Array.from([...prompt, ...ids(...answer)]),
    prompt.length,
  );
}

describe('words of the prompt', () => {
  it('are proposed where one has begun after something else, in tokens of what is left', () => {
    expect(drafter('"', 'B').propose(END)).toEqual({
      token: id('er'),
      source: 'word-completion',
      matchLength: 1,
    });
    expect(drafter('"', 'Ber').propose(END)).toEqual({
      token: id('lin'),
      source: 'word-completion',
      matchLength: 3,
    });
  });

  it('end where they end in the prompt', () => {
    expect(drafter('"', 'Ber', 'lin').propose(END)).toEqual({
      token: END,
      source: 'word-end',
      matchLength: 0,
    });
    expect(drafter('"', 'Ber', 'lin').propose()).toBeUndefined();
  });

  it('are not proposed where none has begun, and where it is another one', () => {
    expect(drafter().propose(END)).toBeUndefined();
    expect(drafter('"').propose(END)).toBeUndefined();
    expect(drafter('"', 'Be', 'x').propose(END)).toBeUndefined();
  });

  it('may be extended and rolled back', () => {
    const words = drafter('"', 'B');
    words.extend(id('er'));
    expect(words.propose(END)?.token).toBe(id('lin'));
    words.extend(END);
    words.extend(id('x'));
    words.rollBack();
    expect(words.propose(END)?.token).toBe(id('er'));
    words.accept(id('er'));
    expect(words.propose(END)?.token).toBe(id('lin'));
  });

  it('need not be short, nor tokens known', () => {
    const words = drafter('"', ...new Array(100).fill('x'));
    expect(words.propose(END)).toBeUndefined();
    words.accept(1_000_000);
    words.accept(id('.'));
    words.accept(id('B'));
    expect(words.propose(END)?.token).toBe(id('er'));
  });
});
