// Root-mean-square normalization.

/** Scales each run of `weight.length` values to a mean square of 1, then by the weights; in place. */
export function rmsNorm(values: Float32Array, weight: Float32Array, epsilon: number): Float32Array {
  const size = weight.length;
  for (let at = 0; at < values.length; at += size) {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += (values[at + i] as number) ** 2;
    const scale = 1 / Math.sqrt(sum / size + epsilon);
    for (let i = 0; i < size; i++)
      values[at + i] = (values[at + i] as number) * scale * (weight[i] as number);
  }
  return values;
}
