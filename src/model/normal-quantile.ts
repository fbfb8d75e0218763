// The value below which a share of the normal distribution lies, in standard deviations.

const STEPS = 60;
const FARTHEST = 9;

/** By halving: -Infinity for 0. */
export function normalQuantile(share: number): number {
  if (share <= 0) return Number.NEGATIVE_INFINITY;
  let low = -FARTHEST;
  let high = FARTHEST;
  for (let step = 0; step < STEPS; step++) {
    const middle = (low + high) / 2;
    if (shareBelow(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** A series of x, x³ / 3, x⁵ / 15 and so on, which has no cancellation. */
function shareBelow(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 3; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) {
    term *= (x * x) / n;
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}
