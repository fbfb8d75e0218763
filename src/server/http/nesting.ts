// Limits how deep a body may be nested: parsers, serializers and templates recurse into it, and could overflow the stack.
// Checked on the text, before it is parsed.

const MAX_LEVELS = 1000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** The text need not be valid JSON. */
export function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (OPENING.has(code)) {
      depth += 1;
      if (depth > MAX_LEVELS) return true;
    } else if (CLOSING.has(code)) depth -= 1;
  }
  return false;
}

/** The index of the closing quote, or the text's end. */
function endOfString(text: string, opening: number): number {
  let at = text.indexOf('"', opening + 1);
  while (at >= 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at < 0 ? text.length : at;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}
