// The input of a custom tool, read from the arguments of the function that stands for it while they come: `{"input": "…"}`.

const OPENING = /^\s*\{\s*"input"\s*:\s*"/;
const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
/** A character, or a whole escape; what is cut off at the end matches neither. */
const UNIT = /[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u]/y;
const HIGH_SURROGATE = /[\ud800-\udbff]$/;

export class CustomInput {
  #unread = '';
  #isOpen = false;
  /** The first half of a character that two escapes spell: alone it would be lost on the wire. */
  #half = '';

  /** The text that these arguments add. */
  push(text: string): string {
    this.#unread += text;
    if (!this.#isOpen) {
      const opening = OPENING.exec(this.#unread)?.[0];
      if (opening === undefined) return '';
      this.#isOpen = true;
      this.#unread = this.#unread.slice(opening.length);
    }
    let input = this.#half;
    let at = 0;
    for (;;) {
      UNIT.lastIndex = at;
      const unit = UNIT.exec(this.#unread)?.[0];
      if (unit === undefined) break;
      input += decoded(unit);
      at += unit.length;
    }
    this.#unread = this.#unread.slice(at);
    this.#half = HIGH_SURROGATE.exec(input)?.[0] ?? '';
    return input.slice(0, input.length - this.#half.length);
  }
}

function decoded(unit: string): string {
  if (!unit.startsWith('\\')) return unit;
  const letter = unit[1] as string;
  if (letter === 'u') return String.fromCharCode(Number.parseInt(unit.slice(2), 16));
  return ESCAPES[letter] ?? letter;
}

/** The arguments of an earlier call, as the model wrote them. */
export function customArguments(input: string): string {
  return JSON.stringify({ input });
}
