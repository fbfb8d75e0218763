// The branches of a layer: each reads the residual stream and adds to it.

import type { BranchSpec, LayerSpec, PartSpec } from '../../model/spec.ts';
import { runBody } from './layers/registry.ts';
import { normalize } from './norm.ts';
import type { StepContext } from './step-context.ts';
import { addInto, scaleBy } from './vector.ts';
import type { Loaded } from './weights.ts';

export function runBranches(
  context: StepContext,
  { branches }: Loaded<LayerSpec>,
  stream: Float32Array,
): void {
  const { hiddenSize, normEpsilon } = context.spec;
  for (const branch of branches) {
    addInto(stream, runBranch(context, branch, stream));
    const { streamScale } = branch;
    if (streamScale !== undefined) scaleBy(stream, streamScale);
    if (branch.streamNorm !== undefined) normalize(stream, hiddenSize, branch.streamNorm, normEpsilon);
  }
}

function runBranch(context: StepContext, branch: Loaded<BranchSpec>, stream: Float32Array): Float32Array {
  const { hiddenSize, normEpsilon } = context.spec;
  const [first, ...others] = branch.parts.map((part) => runPart(context, part, stream));
  const sum = first as Float32Array;
  for (const other of others) addInto(sum, other);
  if (branch.output !== undefined) normalize(sum, hiddenSize, branch.output, normEpsilon);
  const { scale } = branch;
  return scale === undefined ? sum : sum.map((value) => value * scale);
}

export function runPart(context: StepContext, part: Loaded<PartSpec>, stream: Float32Array): Float32Array {
  const { hiddenSize, normEpsilon } = context.spec;
  const input =
    part.input === undefined ? stream : normalize(stream.slice(), hiddenSize, part.input, normEpsilon);
  const output = runBody(context, part.body, input, stream);
  return part.output === undefined ? output : normalize(output, hiddenSize, part.output, normEpsilon);
}
