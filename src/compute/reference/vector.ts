// Loops over float vectors. Sums are in double precision, in an order that depends on the length alone.

export function dot(
  left: Float32Array,
  leftAt: number,
  right: Float32Array,
  rightAt: number,
  length: number,
): number {
  let sum = 0;
  for (let i = 0; i < length; i++) sum += (left[leftAt + i] as number) * (right[rightAt + i] as number);
  return sum;
}

/** `target += factor * source`. */
export function addScaled(
  target: Float64Array,
  source: Float32Array,
  sourceAt: number,
  factor: number,
): void {
  for (let i = 0; i < target.length; i++) {
    target[i] = (target[i] as number) + factor * (source[sourceAt + i] as number);
  }
}

/** `target += source`, value by value. */
export function addInto(target: Float32Array, source: Float32Array): void {
  for (let i = 0; i < target.length; i++) target[i] = (target[i] as number) + (source[i] as number);
}

/** `values *= factor`. */
export function scaleBy(values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) * factor;
}

export function softcap(value: number, cap: number): number {
  return cap * Math.tanh(value / cap);
}

/** In place. A sink takes a share of the sum. */
export function softmax(scores: Float64Array, sink = Number.NEGATIVE_INFINITY): Float64Array {
  let largest = sink;
  for (const score of scores) largest = Math.max(largest, score);
  let sum = Math.exp(sink - largest);
  for (let index = 0; index < scores.length; index++) {
    const weight = Math.exp((scores[index] as number) - largest);
    scores[index] = weight;
    sum += weight;
  }
  for (let index = 0; index < scores.length; index++) scores[index] = (scores[index] as number) / sum;
  return scores;
}
