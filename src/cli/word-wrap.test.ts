import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WordWrap } from './word-wrap.ts';

const ESCAPE = '\u001b';
const MOVES = new RegExp(`${ESCAPE}\\[(\\d+)D|${ESCAPE}\\[K|.`, 'gsu');

/** What a terminal shows that knows how to go back and to clear the rest of a line. */
function screen(printed: string): string {
  const lines = [''];
  let column = 0;
  for (const [piece, back] of printed.matchAll(MOVES)) {
    const line = [...(lines.at(-1) as string)];
    if (piece === '\n') {
      lines.push('');
      column = 0;
    } else if (back !== undefined) column -= Number(back);
    else if (piece === '\u001b[K') lines[lines.length - 1] = line.slice(0, column).join('');
    else lines[lines.length - 1] = [...line.slice(0, column), piece, ...line.slice(++column)].join('');
  }
  return lines.join('\n');
}

function wrapped(columns: number, ...pieces: string[]): string {
  const wrap = new WordWrap(() => columns);
  return screen(pieces.map((piece) => wrap.write(piece)).join(''));
}

describe('lines of a terminal', () => {
  it.each([
    ['one two three', 'one two \nthree'],
    ['one two th', 'one two th'],
    ['1234567890 x', '1234567890\nx'],
    ['a-very-long-word is cut', 'a-very-lon\ng-word is \ncut'],
    ['see a-very-long-word', 'see \na-very-lon\ng-word'],
    ['one\n\ntwo three four', 'one\n\ntwo three \nfour'],
    ['日本語の文章です', '日本語の文\n章です'],
    ['か\u3099か\u3099か\u3099か\u3099か\u3099abc', 'か\u3099か\u3099か\u3099か\u3099か\u3099\nabc'],
    ['🎿🎿🎿🎿🎿🎿', '🎿🎿🎿🎿🎿\n🎿'],
    ['e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 eee', 'e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 \neee'],
  ])('are broken between words: %j', (text, expected) => {
    expect(wrapped(11, text)).toBe(expected);
  });

  it('take styles along with their words', () => {
    const wrap = new WordWrap(() => 11);
    expect(wrap.write('one two \u001b[1mthree')).toBe('one two \u001b[1mth\u001b[2D\u001b[K\n\u001b[1mthree');
  });

  it('are the same however the text is cut, hold all of it but spaces at their ends, and fit', () => {
    const words = fc.array(fc.constantFrom('a', 'bcd', ' ', '\n', 'longer-than'), { maxLength: 40 });
    fc.assert(
      fc.property(words, fc.integer({ min: 2, max: 12 }), (pieces, columns) => {
        const whole = wrapped(columns, pieces.join(''));
        expect(wrapped(columns, ...pieces)).toBe(whole);
        const bare = (text: string) => text.replace(/[\n ]/g, '');
        expect(bare(whole)).toBe(bare(pieces.join('')));
        expect(Math.max(...whole.split('\n').map((line) => line.length))).toBeLessThan(columns);
      }),
    );
  });

  it('stay as they are where the text is code, and are broken again after it', () => {
    const wrap = new WordWrap(() => 11);
    expect(screen(wrap.pass('let long = "line";\nx = ') + wrap.write('12 three'))).toBe(
      'let long = "line";\nx = 12 \nthree',
    );
  });

  it('follow the terminal when it is resized', () => {
    let columns = 21;
    const wrap = new WordWrap(() => columns);
    let shown = wrap.write('one two three ');
    columns = 15;
    shown += wrap.write('four five');
    expect(screen(shown)).toBe('one two three \nfour five');
  });
});
