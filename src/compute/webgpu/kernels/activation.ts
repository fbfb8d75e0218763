// What makes a feed-forward more than a linear map. Exponentials and tangents are kept from overflowing: what some
// adapters make of infinities is no number.

import type { Activation } from '../../../model/spec.ts';
import { spoiled } from './spoiled.ts';

const curves: Readonly<Record<Extract<Activation, string>, string>> = {
  silu: 'return x / (1.0 + exp(min(-x, 80.0)));',
  'gelu-tanh':
    'return 0.5 * x * (1.0 + tanh(clamp(0.7978845608 * (x + 0.044715 * x * x * x), -15.0, 15.0)));',
  // What is left to one of the error function: a polynomial times the normal curve, to 1.5e-7 (Abramowitz and Stegun 7.1.26).
  gelu: `let size = min(abs(x) * 0.7071067812, 6.0);
  let t = 1.0 / (1.0 + 0.3275911 * size);
  let rest = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp(-size * size);
  return 0.5 * x * select(2.0 - rest, rest, x < 0.0);`,
};

/** Declares `activate(x)`, or `activate(gate, up)` for one that takes both. */
export function activationText(activation: Activation): string {
  if (typeof activation === 'string') return `fn activate(x: f32) -> f32 {\n  ${curves[activation]}\n}`;
  const { limit, slope } = activation;
  return /* wgsl */ `${spoiled}
fn activate(gate: f32, up: f32) -> f32 {
  let x = select(min(gate, ${limit}), gate, isSpoiled(gate));
  let factor = select(clamp(up, -${limit}, ${limit}), up, isSpoiled(up)) + 1.0;
  return x / (1.0 + exp(min(-${slope} * x, 80.0))) * factor;
}`;
}

/** Declares `sigmoid`, which hides nothing that is no number; `isSpoiled` is declared before. */
export const sigmoid = /* wgsl */ `
fn sigmoid(x: f32) -> f32 { return select(1.0 / (1.0 + exp(min(-x, 80.0))), x, isSpoiled(x)); }
`;
