// Texts from elsewhere, made harmless to look at: what would steer a terminal, turn the reading direction around or hide
// is shown as what it is.

/** C0 without tab and newline, DEL, C1, marks and overrides of direction, invisible fillers, tags, halves of pairs. */
const STEERING =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

export function visible(text: string): string {
  return text.replace(STEERING, (found) => {
    const code = found.codePointAt(0) as number;
    // Unicode has pictures of the oldest ones.
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '\u2421';
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}
