// Formulas in Markdown, as models write them: $…$ and \(…\) within a line, $$…$$ and \[…\] on lines of their own.

import type { TokenizerAndRendererExtension } from 'marked';

// As Pandoc has it: no space inside, and no digit after, so that prices stay prices.
const dollars = /^\$(?!\s)((?:\\.|[^$\\\n]){1,4000}?)(?<!\s)\$(?!\d)/;
// Every character matches in one way, and no formula is endless: each piece of a stream is read again.
const parentheses = /^\\\(((?:[^\\]|\\(?!\))){1,4000}?)\\\)/;
const block = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n+|$)/;
const within = /^(?:\$\$((?:\\.|[^$\\]){1,4000}?)\$\$|\\\[((?:[^\\]|\\(?!\])){1,4000}?)\\\])/;

export const mathTokens: TokenizerAndRendererExtension[] = [
  {
    name: 'math',
    level: 'block',
    start: (text) => text.match(/^ {0,3}(?:\$\$|\\\[)/m)?.index,
    tokenizer: (text) => tokenOf('math', block.exec(text)),
  },
  {
    name: 'math',
    level: 'inline',
    start: (text) => text.match(/\$\$|\\\[/)?.index,
    tokenizer: (text) => tokenOf('math', within.exec(text)),
  },
  {
    name: 'inlineMath',
    level: 'inline',
    start: (text) => text.match(/\$|\\\(/)?.index,
    tokenizer: (text) => tokenOf('inlineMath', dollars.exec(text) ?? parentheses.exec(text)),
  },
];

function tokenOf(type: string, found: RegExpExecArray | null) {
  if (found === null) return undefined;
  return { type, raw: found[0], text: (found[1] ?? found[2] ?? '').trim() };
}
