// Causal convolutions over the channels of past tokens.

interface Convolution {
  /** [channel][tokens, the newest last]. */
  readonly weight: Float32Array;
  readonly bias?: Float32Array;
}

/**
 * Convolves one token's channels with those of the last tokens, which `waiting` holds, the oldest first; the token then replaces
 * the oldest.
 */
export function convolve(
  waiting: Float32Array,
  fresh: Float32Array,
  { weight, bias }: Convolution,
): Float32Array {
  const channels = fresh.length;
  const before = waiting.length / channels;
  const mixed = new Float32Array(channels);
  for (let channel = 0; channel < channels; channel++) {
    const at = channel * (before + 1);
    let sum = (weight[at + before] as number) * (fresh[channel] as number) + (bias?.[channel] ?? 0);
    for (let age = 0; age < before; age++) {
      sum += (weight[at + age] as number) * (waiting[age * channels + channel] as number);
    }
    mixed[channel] = sum;
  }
  waiting.copyWithin(0, channels);
  waiting.set(fresh, waiting.length - channels);
  return mixed;
}
