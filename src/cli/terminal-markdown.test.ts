import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TerminalMarkdown } from './terminal-markdown.ts';

function render(...pieces: string[]): string {
  const markdown = new TerminalMarkdown();
  return pieces.map((piece) => markdown.write(piece)).join('') + markdown.end();
}

const seen = (text: string) =>
  text
    .replaceAll('\x1b[1m', '<b>')
    .replaceAll('\x1b[22m', '</b>')
    .replaceAll('\x1b[36m', '<c>')
    .replaceAll('\x1b[39m', '</c>');

describe('Markdown on a terminal', () => {
  it.each([
    ['a **bold** word', 'a <b>bold</b> word'],
    ['run `npm i` now', 'run <c>npm i</c> now'],
    ['# Title\ntext', '<b># Title</b>\ntext'],
    ['## A **b** c\n', '<b>## A b c</b>\n'],
    ['```js\nlet **a** = `b`;\n```\nend', '<c>```js\nlet **a** = `b`;\n```</c>\nend'],
    ['`**` and 2 ** 3 * 4', '<c>**</c> and 2 ** 3 * 4'],
    ['* one\n* two', '* one\n* two'],
    ['#hashtag #2', '#hashtag #2'],
    ['left **open\nnext', 'left <b>open</b>\nnext'],
    ['```\ncut', '<c>```\ncut</c>'],
    ['ends in *', 'ends in *'],
    ['ends in #', 'ends in #'],
    ['#', '#'],
  ])('shows %j', (text, expected) => {
    expect(seen(render(text))).toBe(expected);
  });

  it('is the same however the answer is cut', () => {
    const words = fc.array(fc.constantFrom('a', ' ', '*', '**', '`', '```', '\n', '#', '# ', 'é🎿'), {
      maxLength: 40,
    });
    fc.assert(
      fc.property(words, (pieces) => {
        const text = pieces.join('');
        expect(render(...text)).toBe(render(text));
        expect(render(...pieces)).toBe(render(text));
      }),
    );
  });

  it('leaves no style open, and text without marks as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '*', '`', '\n', '#', ' ') }), (text) => {
        const shown = seen(render(text));
        const count = (mark: string) => shown.split(mark).length;
        expect(count('<c>')).toBe(count('</c>'));
        expect(count('<b>')).toBe(count('</b>'));
        if (!/[*`#]/.test(text)) expect(shown).toBe(text);
      }),
    );
  });
});
