// Activations, sigmoid, softplus and soft caps. Exponentials and tangents are kept from overflowing: what some GPUs make of
// infinities is no number.

import type { Activation } from '../../../model/spec.ts';
import type { TowerActivation } from '../../../model/vision/vision-spec.ts';

/**
 * Declares `isSpoiled`: infinite, or no number. Such values reach the logits and are seen there; what min, max, clamp and
 * comparisons make of them WGSL leaves open.
 */
export const spoiled = /* wgsl */ `
fn isSpoiled(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u; }
`;

const curves: Readonly<Record<Extract<Activation, string> | TowerActivation, string>> = {
  silu: 'return x / (1.0 + exp(min(-x, 80.0)));',
  'quick-gelu': 'return x / (1.0 + exp(min(-1.702 * x, 80.0)));',
  'gelu-tanh':
    'return 0.5 * x * (1.0 + tanh(clamp(0.7978845608 * (x + 0.044715 * x * x * x), -15.0, 15.0)));',
  // 1 - erf: a polynomial times the normal curve, to 1.5e-7 (Abramowitz and Stegun 7.1.26).
  gelu: `let size = min(abs(x) * 0.7071067812, 6.0);
  let t = 1.0 / (1.0 + 0.3275911 * size);
  let rest = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp(-size * size);
  return 0.5 * x * select(2.0 - rest, rest, x < 0.0);`,
};

/** Declares `activate(x)`, or `activate(gate, up)` for one that takes both. */
export function activationText(activation: Activation | TowerActivation): string {
  if (typeof activation === 'string') return `fn activate(x: f32) -> f32 {\n  ${curves[activation]}\n}`;
  const { limit, slope } = activation;
  return /* wgsl */ `${spoiled}
fn activate(gate: f32, up: f32) -> f32 {
  let x = select(min(gate, ${limit}), gate, isSpoiled(gate));
  let factor = select(clamp(up, -${limit}, ${limit}), up, isSpoiled(up)) + 1.0;
  return x / (1.0 + exp(min(-${slope} * x, 80.0))) * factor;
}`;
}

/** Declares `sigmoid`; `isSpoiled` is declared before. */
export const sigmoid = /* wgsl */ `
fn sigmoid(x: f32) -> f32 { return select(1.0 / (1.0 + exp(min(-x, 80.0))), x, isSpoiled(x)); }
`;

/** Declares `isSpoiled` and `capped`. */
export const softCap = /* wgsl */ `${spoiled}
fn capped(x: f32, cap: f32) -> f32 {
  return select(cap * tanh(clamp(x / cap, -15.0, 15.0)), x, isSpoiled(x));
}
`;

/** Declares `softplus`, exact where it is small, too; `isSpoiled` is declared before. */
export const softplus = /* wgsl */ `
fn softplus(x: f32) -> f32 {
  if (x > 20.0 || isSpoiled(x)) { return x; }
  let u = exp(x);
  return select(log(1.0 + u), u * (1.0 - u * (0.5 - u / 3.0)), u < 0.01);
}
`;
