import { describe, expect, it } from 'vitest';
import { MarkdownBlocks } from './markdown-blocks.ts';

const kinds = (text: string) => new MarkdownBlocks().read(text).map(({ token }) => token.type);

const text = [
  '# Title',
  'Some *words* and `code`.',
  '```js\nconst a = 1;\n\nconst b = 2;\n```',
  '- one\n- two\n\n  still two\n- three',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  'A price of $5 or $6, a formula $x$.',
  '$$\n\\frac{a}{b}\n$$',
  '\\[ y \\]',
  'The end.',
].join('\n\n');

describe('blocks of Markdown', () => {
  it('are the same whether a text comes at once or character by character', () => {
    const growing = new MarkdownBlocks();
    let last = growing.read('');
    for (let length = 1; length <= text.length; length++) last = growing.read(text.slice(0, length));
    expect(last.map(({ token }) => token)).toEqual(new MarkdownBlocks().read(text).map(({ token }) => token));
  });

  it('add up to the text', () => {
    expect(
      new MarkdownBlocks()
        .read(text)
        .map(({ raw }) => raw)
        .join(''),
    ).toBe(text);
  });

  it('forget what they knew when another text comes', () => {
    const blocks = new MarkdownBlocks();
    blocks.read(text);
    expect(blocks.read('Other\n\nwords').map(({ raw }) => raw.trim())).toEqual(['Other', '', 'words']);
  });

  it('that are endless are shown as they are, and nothing around them suffers', () => {
    const long = 'a'.repeat(300_000);
    expect(kinds(`**before**\n\n${long}\n\n**after**`).filter((kind) => kind !== 'space')).toEqual([
      'paragraph',
      'plain',
      'paragraph',
    ]);
  });

  it('stay whole where a long text is read in parts', () => {
    const code = `\`\`\`\n${'line\n\n'.repeat(8000)}\`\`\``;
    const before = 'A paragraph of words.\n\n'.repeat(1000);
    const codes = new MarkdownBlocks().read(before + code).filter(({ token }) => token.type === 'code');
    expect(codes).toHaveLength(1);
    expect(codes[0]?.raw).toBe(code);
  });

  it('have formulas as models write them, and no prices for formulas', () => {
    expect(kinds('$$a$$')).toEqual(['math']);
    expect(kinds('\\[a\n+ b\\]\n\nText')).toEqual(['math', 'paragraph']);
    const inline = (line: string) =>
      new MarkdownBlocks().read(line).flatMap(({ token }) => ('tokens' in token ? (token.tokens ?? []) : []));
    const formulas = (line: string) =>
      inline(line).flatMap((one) =>
        one.type === 'inlineMath' || one.type === 'math' ? [one.text as string] : [],
      );
    expect(formulas('it is $a_1$, \\(b*c*d\\) and $$e$$')).toEqual(['a_1', 'b*c*d', 'e']);
    expect(formulas('from $5 to $10')).toEqual([]);
    expect(formulas('from 5$ to 10$ and more')).toEqual([]);
    expect(formulas('`$a$` and \\$a$')).toEqual([]);
  });

  it('take no longer where a formula is still open, however many commands it has', () => {
    for (const open of ['\\(', '\\[', 'so \\[', '$', '$$']) {
      const growing = new MarkdownBlocks();
      expect(growing.read(`${open}${'\\alpha + \\beta '.repeat(500)}`).length).toBeGreaterThan(0);
    }
  });
});
