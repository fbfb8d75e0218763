// Ends an answer where one of its stop strings is complete, however the text is cut into pieces. Text that may
// be the start of a stop string waits; the stop string itself is never shown.
//
// The rule, the same for every cut: the answer ends at the first character that completes a stop string, and
// what is shown ends where the longest of those complete there begins.

interface StopResult {
  /** Safe to show. */
  readonly text: string;
  readonly stopped: boolean;
}

interface Pattern {
  readonly text: string;
  /** For each prefix, the longest proper prefix that is also its suffix (Knuth, Morris, Pratt). */
  readonly borders: Int32Array;
  /** How much of the pattern ends the text so far. */
  matched: number;
}

export class StopStrings {
  readonly #patterns: readonly Pattern[];
  #held = '';
  #found: string | undefined;

  constructor(stops: readonly string[]) {
    if (stops.includes('')) throw new RangeError('a stop string must not be empty');
    this.#patterns = stops.map((text) => ({ text, borders: bordersOf(text), matched: 0 }));
  }

  /** Of several, the longest. */
  get found(): string | undefined {
    return this.#found;
  }

  push(piece: string): StopResult {
    if (this.#found !== undefined) return { text: '', stopped: true };
    if (this.#patterns.length === 0) return { text: piece, stopped: false };
    const text = this.#held + piece;
    for (let at = this.#held.length; at < text.length; at++) {
      const complete = this.#advance(text.charCodeAt(at));
      if (complete === 0) continue;
      this.#found = text.slice(at + 1 - complete, at + 1);
      this.#held = '';
      return { text: text.slice(0, at + 1 - complete), stopped: true };
    }
    const longest = Math.max(...this.#patterns.map(({ matched }) => matched));
    this.#held = text.slice(text.length - longest);
    return { text: text.slice(0, text.length - longest), stopped: false };
  }

  /** Releases held text: the answer ended before a stop string was complete. */
  flush(): string {
    const text = this.#held;
    this.#held = '';
    for (const pattern of this.#patterns) pattern.matched = 0;
    return text;
  }

  /** Length of the longest stop string completed by this character, or 0. */
  #advance(unit: number): number {
    let complete = 0;
    for (const pattern of this.#patterns) {
      while (pattern.matched > 0 && pattern.text.charCodeAt(pattern.matched) !== unit) {
        pattern.matched = pattern.borders[pattern.matched - 1] as number;
      }
      if (pattern.text.charCodeAt(pattern.matched) === unit) pattern.matched++;
      if (pattern.matched === pattern.text.length) complete = Math.max(complete, pattern.matched);
    }
    return complete;
  }
}

function bordersOf(text: string): Int32Array {
  const borders = new Int32Array(text.length);
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = borders[length - 1] as number;
    if (text[at] === text[length]) length++;
    borders[at] = length;
  }
  return borders;
}
