// The alphabet of byte-level vocabularies: every byte is written as one printable character, so that
// tokens are readable text. Printable Latin-1 bytes stand for themselves, the rest follow from U+0100 on.

const characters = buildCharacters();
const bytes: ReadonlyMap<string, number> = new Map(characters.map((character, byte) => [character, byte]));
const encoder = new TextEncoder();

/** The character that stands for each byte, by byte value. */
export const byteCharacters: readonly string[] = characters;

/** The text whose characters stand for the UTF-8 bytes of `text`. */
export function toByteCharacters(text: string): string {
  let mapped = '';
  for (const byte of encoder.encode(text)) mapped += characters[byte];
  return mapped;
}

/** The bytes that `mapped` stands for; undefined where a character stands for none. */
export function fromByteCharacters(mapped: string): Uint8Array | undefined {
  const result = new Uint8Array(mapped.length);
  let length = 0;
  for (const character of mapped) {
    const byte = bytes.get(character);
    if (byte === undefined) return undefined;
    result[length++] = byte;
  }
  return result.subarray(0, length);
}

function buildCharacters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
    return String.fromCodePoint(printable ? byte : next++);
  });
}
