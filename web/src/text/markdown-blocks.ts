// Splits a growing Markdown text into its blocks. Blocks that have ended are not parsed again: each new word costs as much as
// the block it stands in.

import { Lexer, Marked, type Token, type Tokens } from 'marked';
import { mathTokens } from './math-tokens.ts';

interface MarkdownBlock {
  readonly raw: string;
  readonly token: Token;
}

const { defaults: options } = new Marked({ gfm: true, breaks: true, extensions: mathTokens });

/**
 * The most that is parsed at once, and the longest block that is parsed: parsers of Markdown are not fast on every text.
 * Longer ones are shown as they are.
 */
const MOST_CHARACTERS = 60_000;
const BETWEEN_BLOCKS = '\n\n';

export class MarkdownBlocks {
  #settled: MarkdownBlock[] = [];
  #settledText = '';

  read(text: string): readonly MarkdownBlock[] {
    if (!text.startsWith(this.#settledText)) {
      this.#settled = [];
      this.#settledText = '';
    }
    for (;;) {
      const rest = text.slice(this.#settledText.length);
      if (rest.length <= MOST_CHARACTERS) {
        const tail = blocksOf(rest);
        this.#settleEnded(tail);
        return [...this.#settled, ...tail];
      }
      if (this.#settleEnded(blocksOf(rest.slice(0, MOST_CHARACTERS))) > 0) continue;
      // One block fills all of it: whatever it is, it ends at an empty line.
      const end = rest.indexOf(BETWEEN_BLOCKS, MOST_CHARACTERS);
      if (end < 0) return [...this.#settled, plain(rest)];
      this.#settle([plain(rest.slice(0, end + BETWEEN_BLOCKS.length))]);
    }
  }

  /** Takes out of a list what cannot change any more: the last block may go on, and white space after it may be its own. */
  #settleEnded(blocks: MarkdownBlock[]): number {
    const open = blocks.findLastIndex(({ token }) => token.type !== 'space');
    const ended = blocks.splice(0, Math.max(0, open));
    this.#settle(ended);
    return ended.length;
  }

  #settle(blocks: readonly MarkdownBlock[]): void {
    for (const block of blocks) {
      this.#settled.push(block);
      this.#settledText += block.raw;
    }
  }
}

function blocksOf(text: string): MarkdownBlock[] {
  try {
    const tokens = new Lexer(options).lex(text);
    // Where its blocks do not add up to the text, the cut between old and new would be at a wrong place.
    if (tokens.map(({ raw }) => raw).join('') !== text) return [{ raw: text, token: wrapped(tokens, text) }];
    return tokens.map((token) => ({ raw: token.raw, token }));
  } catch {
    return [plain(text)];
  }
}

function plain(text: string): MarkdownBlock {
  const token: Tokens.Generic = { type: 'plain', raw: text, text };
  return { raw: text, token };
}

function wrapped(tokens: Token[], raw: string): Tokens.Generic {
  return { type: 'group', raw, tokens };
}
