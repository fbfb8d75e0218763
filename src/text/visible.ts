// Shows control characters of untrusted texts: those that steer a terminal, change the reading direction or hide.

/** C0 without tab and newline, DEL, C1, direction marks and overrides, invisible fillers, tags, surrogates. */
const STEERING =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

export function visible(text: string): string {
  return text.replace(STEERING, (found) => {
    const code = found.codePointAt(0) as number;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '\u2421';
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}
