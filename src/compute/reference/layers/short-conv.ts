// A convolution between two gates: see ShortConvSpec.

import { applyLinear } from '../linear.ts';
import type { RecurrentStates, StatesOfSequence } from '../recurrent-states.ts';
import type { ShortConv } from '../weights.ts';
import { convolve } from './causal-conv.ts';

export function runShortConv(
  body: ShortConv,
  input: Float32Array,
  recurrentStates: RecurrentStates,
  sequences: readonly StatesOfSequence[],
): Float32Array {
  const { state, size } = body;
  const before = applyLinear(body.before, input);
  const channels = applyLinear(body.value, input).map((value, index) => value * (before[index] as number));
  const mixed = new Float32Array(channels.length);
  recurrentStates.through(state, sequences, (row, waiting) => {
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
