import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopStrings } from './stop-strings.ts';

interface Shown {
  readonly text: string;
  readonly stopped: boolean;
}

function show(stops: readonly string[], pieces: readonly string[]): Shown {
  const matcher = new StopStrings(stops);
  let text = '';
  for (const piece of pieces) {
    const result = matcher.push(piece);
    text += result.text;
    if (result.stopped) return { text, stopped: true };
  }
  return { text: text + matcher.flush(), stopped: false };
}

/** The rule, said plainly: the shortest beginning of the text that ends with a stop string. */
function search(stops: readonly string[], text: string): Shown {
  for (let end = 1; end <= text.length; end++) {
    const lengths = stops.filter((stop) => text.slice(0, end).endsWith(stop)).map(({ length }) => length);
    if (lengths.length > 0) return { text: text.slice(0, end - Math.max(...lengths)), stopped: true };
  }
  return { text, stopped: false };
}

// Few letters, so that partial matches and overlaps are common.
const word = (maxLength: number) =>
  fc.array(fc.constantFrom('a', 'b', 'ü', '😀'), { minLength: 1, maxLength }).map((parts) => parts.join(''));
const pieces = fc.array(fc.oneof(word(6), fc.constant('')), { maxLength: 12 });

describe('stop strings', () => {
  it('show the same text as a search of the whole, however it is cut', () => {
    fc.assert(
      fc.property(fc.array(word(5), { maxLength: 4 }), pieces, (stops, cut) => {
        expect(show(stops, cut)).toEqual(search(stops, cut.join('')));
      }),
      { numRuns: 3000 },
    );
  });

  it('hold back only what may still become a stop string', () => {
    const matcher = new StopStrings(['END']);
    expect(matcher.push('The EN')).toEqual({ text: 'The ', stopped: false });
    expect(matcher.push('TRY')).toEqual({ text: 'ENTRY', stopped: false });
    expect(matcher.push(' E')).toEqual({ text: ' ', stopped: false });
    expect(matcher.push('ND of it')).toEqual({ text: '', stopped: true });
  });

  it('find a match that begins inside a failed one', () => {
    expect(show(['aab'], ['aa', 'ab'])).toEqual({ text: 'a', stopped: true });
  });

  it('take the longest of those that end together', () => {
    expect(show(['b', 'ab'], ['xab'])).toEqual({ text: 'x', stopped: true });
  });

  it('tell which of them it was', () => {
    const matcher = new StopStrings(['b', 'ab', 'never']);
    expect(matcher.found).toBeUndefined();
    for (const piece of ['x', 'a', 'by']) matcher.push(piece);
    expect(matcher.found).toBe('ab');
  });

  it('give back what was held when the text ends', () => {
    expect(show(['stop'], ['do not st', 'o'])).toEqual({ text: 'do not sto', stopped: false });
  });

  it('pass everything on at once where there are none', () => {
    expect(new StopStrings([]).push('anything')).toEqual({ text: 'anything', stopped: false });
  });

  it('refuse an empty stop string', () => {
    expect(() => new StopStrings(['a', ''])).toThrow(/empty/);
  });
});
