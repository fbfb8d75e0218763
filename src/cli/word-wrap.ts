// Breaks the lines of a terminal between words, as text streams: the terminal itself breaks within them. Letters are shown as they
// come; a word that does not fit is taken back and begins the next line.

const ESCAPE = '\u001b';
const PIECES = new RegExp(`${ESCAPE}\\[[0-9;]*m|.`, 'gsu');
const TAB = 8;
// Written without spaces, or wide: lines may be broken at each of them.
const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Emoji_Presentation}\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]/u;
const WITHOUT_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u;

export class WordWrap {
  readonly #columns: () => number;
  #column = 0;
  /** What is shown of the word under way. */
  #word = '';
  #wordWidth = 0;

  /** `columns`: of the terminal, which may be resized. */
  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** What to print for the next piece of text. */
  write(text: string): string {
    let out = '';
    for (const [piece] of text.matchAll(PIECES)) {
      if (piece === '\n') out += this.#newLine();
      else if (piece === ' ' || piece === '\t') out += this.#space(piece);
      else if (WIDE.test(piece)) out += this.#wide(piece);
      else out += this.#letter(piece);
    }
    return out;
  }

  /** What to print for a piece whose lines stay as they are. */
  pass(text: string): string {
    const end = text.lastIndexOf('\n');
    if (end >= 0) this.#column = 0;
    this.#column += text.length - end - 1;
    this.#endWord();
    return text;
  }

  /** The last column stays empty: where the cursor is behind it, terminals do not agree. */
  get #room(): number {
    return this.#columns() - 1 - this.#column;
  }

  #letter(letter: string): string {
    const isStyle = letter.startsWith(ESCAPE);
    // Before it stands what it changes, and no word begins.
    if (!isStyle && this.#word === '' && WITHOUT_WIDTH.test(letter)) return letter;
    const width = isStyle || WITHOUT_WIDTH.test(letter) ? 0 : 1;
    const broken = width > this.#room ? this.#breakBeforeWord() : '';
    this.#word += letter;
    this.#wordWidth += width;
    this.#column += width;
    return broken + letter;
  }

  /** A word that fills a line of its own is broken where the line ends. */
  #breakBeforeWord(): string {
    const [word, width] = [this.#word, this.#wordWidth];
    if (this.#column === width) return this.#newLine();
    this.#column = width;
    return `${width > 0 ? `${ESCAPE}[${width}D${ESCAPE}[K` : ''}\n${word}`;
  }

  #wide(letter: string): string {
    const broken = this.#room < 2 ? this.#newLine() : '';
    this.#endWord();
    this.#column += 2;
    return broken + letter;
  }

  /** None at the end of a full line: the next one would begin with it. */
  #space(space: string): string {
    this.#endWord();
    if (this.#room < 1) return '';
    this.#column += space === '\t' ? TAB - (this.#column % TAB) : 1;
    return space;
  }

  #newLine(): string {
    this.#endWord();
    this.#column = 0;
    return '\n';
  }

  #endWord(): void {
    this.#word = '';
    this.#wordWidth = 0;
  }
}
