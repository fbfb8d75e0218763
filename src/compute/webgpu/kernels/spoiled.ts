// Numbers that are none, or infinite: they are carried on to the logits and seen there, never hidden. What min, max, clamp
// and comparisons make of them WGSL leaves open; their bits tell.

/** Declares `isSpoiled`. */
export const spoiled = /* wgsl */ `
fn isSpoiled(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u; }
`;

/** Declares `isSpoiled` and `capped`: a soft cap, kept from overflowing, for some adapters make no number of that. */
export const softCap = /* wgsl */ `${spoiled}
fn capped(x: f32, cap: f32) -> f32 {
  return select(cap * tanh(clamp(x / cap, -15.0, 15.0)), x, isSpoiled(x));
}
`;
