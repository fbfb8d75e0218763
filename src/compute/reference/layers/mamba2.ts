// A state space, token by token: see Mamba2Spec.

import { silu } from '../../../model/activation-curves.ts';
import type { Mamba2Spec } from '../../../model/spec.ts';
import { softplus } from '../activation.ts';
import { applyLinear, applySideBySide } from '../linear.ts';
import { normalize } from '../norm.ts';
import type { RunBody } from '../step-context.ts';
import type { Loaded } from '../weights.ts';
import { convolve } from './causal-conv.ts';

type Mamba2 = Loaded<Mamba2Spec>;

export const runMamba2: RunBody<Mamba2Spec> = (context, space, input) => {
  const { recurrentStates, sequences, spec } = context;
  const channels = applySideBySide([space.value, space.write, space.read], input);
  const steps = applyLinear(space.step, input);
  const output = new Float32Array(steps.length * space.headSize);
  recurrentStates.through(space.state, sequences, (row, state) =>
    advance(space, channels, steps, row, state, output),
  );
  const gate = applyLinear(space.gate, input);
  const gated = output.map((value, index) => value * silu(gate[index] as number));
  return applyLinear(
    space.output,
    normalize(gated, space.heads * space.headSize, space.norm, spec.normEpsilon),
  );
};

function advance(
  space: Mamba2,
  channels: Float32Array,
  steps: Float32Array,
  row: number,
  state: Float32Array,
  output: Float32Array,
): void {
  const { heads, headSize, stateSize, groups, convolution } = space;
  const width = convolution.weight.length / convolution.length;
  const waiting = state.subarray(0, (convolution.length - 1) * width);
  const mixed = convolve(waiting, channels.subarray(row * width, (row + 1) * width), space.convolution).map(
    silu,
  );
  const writesAt = heads * headSize;
  const readsAt = writesAt + groups * stateSize;
  for (let head = 0; head < heads; head++) {
    const group = Math.floor((head * groups) / heads);
    const at = row * heads + head;
    const step = softplus((steps[at] as number) + (space.stepBias[head] as number));
    const kept = Math.exp(step * (space.rate[head] as number));
    const matrix = state.subarray(
      waiting.length + head * headSize * stateSize,
      waiting.length + (head + 1) * headSize * stateSize,
    );
    const writes = mixed.subarray(writesAt + group * stateSize, writesAt + (group + 1) * stateSize);
    const reads = mixed.subarray(readsAt + group * stateSize, readsAt + (group + 1) * stateSize);
    for (let i = 0; i < headSize; i++) {
      const value = mixed[head * headSize + i] as number;
      let sum = (space.skip[head] as number) * value;
      for (let n = 0; n < stateSize; n++) {
        const place = i * stateSize + n;
        const next = Math.fround((matrix[place] as number) * kept + step * value * (writes[n] as number));
        matrix[place] = next;
        sum += next * (reads[n] as number);
      }
      output[at * headSize + i] = sum;
    }
  }
}
