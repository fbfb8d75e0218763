import { describe, expect, it } from 'vitest';
import { visible } from './visible.ts';

describe('what is shown of a text', () => {
  it.each([
    ['\u001b[31mred', '␛[31mred'],
    ['a\u0000b\u007f', 'a␀b␡'],
    ['\u0085', '⟨U+0085⟩'],
    ['x\u202ey\u2066z', 'x⟨U+202E⟩y⟨U+2066⟩z'],
    ['\ud800', '⟨U+D800⟩'],
    ['\u{e0041}', '⟨U+E0041⟩'],
  ])('%j is shown as %j', (text, shown) => {
    expect(visible(text)).toBe(shown);
  });

  it('is left alone where it is only writing', () => {
    const writing = 'Grüße, مرحبا, שלום, 你好, 👩‍👩‍👧‍👦\n\tcode';
    expect(visible(writing)).toBe(writing);
  });
});
