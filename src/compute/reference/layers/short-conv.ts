// A convolution between two gates: see ShortConvSpec.

import type { ShortConvSpec } from '../../../model/spec.ts';
import { applyLinear } from '../linear.ts';
import type { RunBody } from '../step-context.ts';
import { convolve } from './causal-conv.ts';

export const runShortConv: RunBody<ShortConvSpec> = ({ recurrentStates, sequences }, body, input) => {
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
};
