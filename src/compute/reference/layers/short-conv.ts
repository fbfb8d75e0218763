// A convolution between two gates: see ShortConvolutionSpec.

import { convolve } from './causal-conv.ts';
import { applyLinear } from '../linear.ts';
import type { Memories, Recollection } from '../recurrent-states.ts';
import type { ShortConvolution } from '../weights.ts';

export function runShortConvolution(
  body: ShortConvolution,
  input: Float32Array,
  memories: Memories,
  sequences: readonly Recollection[],
): Float32Array {
  const { memory, size } = body;
  const before = applyLinear(body.before, input);
  const channels = applyLinear(body.value, input).map((value, index) => value * (before[index] as number));
  const mixed = new Float32Array(channels.length);
  memories.through(memory, sequences, (row, waiting) => {
    mixed.set(
      convolve(waiting, channels.subarray(row * size, (row + 1) * size), body.convolution),
      row * size,
    );
  });
  const after = applyLinear(body.after, input);
  return applyLinear(
    body.output,
    mixed.map((value, index) => value * (after[index] as number)),
  );
}
