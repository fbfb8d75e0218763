// Ranges of characters as sequences of byte ranges in UTF-8.

type ByteRange = readonly [first: number, last: number];

/** Last code points of one, two, three and four bytes. */
const lengths = [0x7f, 0x7ff, 0xffff, 0x10ffff] as const;

/** Whether it holds half a surrogate pair, which has no bytes. */
export function hasHalves(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** Each sequence stands for all characters whose bytes lie in its ranges; together they are the range. */
export function utf8Sequences(first: number, last: number): ByteRange[][] {
  const result: ByteRange[][] = [];
  let from = first;
  for (const [extra, limit] of lengths.entries()) {
    if (from > last) break;
    if (from > limit) continue;
    result.push(...split(from, Math.min(last, limit), extra));
    from = limit + 1;
  }
  return result;
}

/** Cuts where the leading bytes differ, until every following byte has one range of its own. */
function split(first: number, last: number, extra: number): ByteRange[][] {
  for (let bits = 6 * extra; bits > 0; bits -= 6) {
    const low = 2 ** bits - 1;
    const sameLead = Math.floor(first / 2 ** bits) === Math.floor(last / 2 ** bits);
    if (sameLead) continue;
    if ((first & low) !== 0)
      return [...split(first, first | low, extra), ...split((first | low) + 1, last, extra)];
    if ((last & low) !== low)
      return [...split(first, (last & ~low) - 1, extra), ...split(last & ~low, last, extra)];
    break;
  }
  const [a, b] = [bytesOf(first, extra), bytesOf(last, extra)];
  return [a.map((byte, at) => [byte, b[at] as number] as const)];
}

function bytesOf(codePoint: number, extra: number): number[] {
  if (extra === 0) return [codePoint];
  const bytes: number[] = [];
  for (let at = extra; at > 0; at--) bytes.push(0x80 | ((codePoint >>> (6 * (at - 1))) & 0x3f));
  const lead = [0, 0xc0, 0xe0, 0xf0][extra] as number;
  return [lead | (codePoint >>> (6 * extra)), ...bytes];
}
