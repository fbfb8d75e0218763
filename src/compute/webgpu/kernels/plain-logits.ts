// Logits as bits, and their order. WGSL promises nothing where numbers overflow, underflow or are none: what is not
// plain makes its row odd, and the processor samples there. Sums and products of plain numbers stay far from both ends.

/** Whether a number is plain: the same as in WGSL below. */
export function isPlain(value: number): boolean {
  const size = Math.abs(Math.fround(value));
  return size === 0 || (size >= 2 ** -64 && size < 2 ** 100);
}

/**
 * Declares `isPlain`, `keyOf`, which is larger for larger logits and the same for both zeros, and its inverse
 * `fromKey`. Minus infinity, which excludes a token, has the key `nothing`; all plain logits have larger ones.
 */
export const plainLogits = /* wgsl */ `
const excluded = 0xff800000u;
const nothing = 0x007fffffu;
fn isPlain(bits: u32) -> bool {
  let size = bits & 0x7fffffffu;
  return size == 0u || size - 0x1f800000u < 0x71800000u - 0x1f800000u;
}
fn keyOf(bits: u32) -> u32 {
  return select(select(~bits, bits | 0x80000000u, bits < 0x80000000u), 0x80000000u, bits == 0x80000000u);
}
fn fromKey(key: u32) -> u32 { return select(~key, key & 0x7fffffffu, key >= 0x80000000u); }
`;
