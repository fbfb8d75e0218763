// SentencePiece's normalization as its models carry it: a double-array trie from characters to their replacements. Applied as the
// tokenizers library does: to whole graphemes of fewer than six bytes, else to single characters.

const MAX_GRAPHEME_BYTES = 6;
const utf8 = new TextEncoder();

/** Undefined where the bytes are no such map. */
export function charsmapNormalizer(bytes: Uint8Array): ((text: string) => string) | undefined {
  if (bytes.length < 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const trieBytes = view.getUint32(0, true);
  if (trieBytes % 4 !== 0 || trieBytes + 4 > bytes.length) return undefined;
  const trie = Uint32Array.from({ length: trieBytes / 4 }, (_, at) => view.getUint32(4 + 4 * at, true));
  const texts = Buffer.from(bytes.subarray(4 + trieBytes));
  const known = new Map<string, string | undefined>();
  const segmenter = new Intl.Segmenter('und', { granularity: 'grapheme' });

  const replaced = (part: string): string | undefined => {
    if (known.has(part)) return known.get(part);
    const at = firstMatch(trie, utf8.encode(part));
    const end = at === undefined ? -1 : texts.indexOf(0, at);
    const found = at === undefined ? undefined : texts.toString('utf8', at, end === -1 ? texts.length : end);
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(part, found);
    return found;
  };
  const eachCharacter = (text: string) => Array.from(text, (one) => replaced(one) ?? one).join('');

  return (text) => {
    // Of these each is a grapheme of its own.
    if (/^[\x20-\x7e]*$/.test(text)) return eachCharacter(text);
    let result = '';
    for (const { segment } of segmenter.segment(text)) {
      const whole = utf8.encode(segment).length < MAX_GRAPHEME_BYTES ? replaced(segment) : undefined;
      result += whole ?? eachCharacter(segment);
    }
    return result;
  };
}

const MAX_KNOWN = 20_000;

/** The value of the shortest beginning that the trie has. */
function firstMatch(trie: Uint32Array, key: Uint8Array): number | undefined {
  let at = offsetOf(trie[0] ?? 0);
  for (const byte of key) {
    if (byte === 0) return undefined;
    at ^= byte;
    const unit = trie[at] ?? 0;
    if ((unit & 0x800000ff) >>> 0 !== byte) return undefined;
    at ^= offsetOf(unit);
    if (((unit >>> 8) & 1) === 1) return (trie[at] ?? 0) & 0x7fffffff;
  }
  return undefined;
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
