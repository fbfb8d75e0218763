// The gated delta net, token by token: see GatedDeltaNetSpec.

import { sigmoid, silu } from '../../../model/activation-curves.ts';
import type { GatedDeltaNetSpec } from '../../../model/spec.ts';
import { softplus } from '../activation.ts';
import { applyLinear, applySideBySide } from '../linear.ts';
import { normalize } from '../norm.ts';
import type { RunBody } from '../step-context.ts';
import type { Loaded } from '../weights.ts';
import { convolve } from './causal-conv.ts';

/** Added to squared lengths of keys and queries. */
const LENGTH_EPSILON = 1e-6;

type GatedDeltaNet = Loaded<GatedDeltaNetSpec>;

interface Inputs {
  /** Queries, keys and values, row by row. */
  readonly channels: Float32Array;
  readonly shares: Float32Array;
  readonly decays: Float32Array;
}

export const runGatedDeltaNet: RunBody<GatedDeltaNetSpec> = (context, net, input) => {
  const { recurrentStates, sequences, spec } = context;
  const inputs: Inputs = {
    channels: applySideBySide([net.query, net.key, net.value], input),
    shares: applyLinear(net.share, input),
    decays: applyLinear(net.decay, input),
  };
  const output = new Float32Array(inputs.shares.length * net.valueSize);
  recurrentStates.through(net.state, sequences, (row, state) => update(net, inputs, row, state, output));
  normalize(output, net.valueSize, net.norm, spec.normEpsilon);
  const gate = applyLinear(net.gate, input);
  return applyLinear(
    net.output,
    output.map((value, index) => value * silu(gate[index] as number)),
  );
};

/** One row: updates the state and reads its output from it. */
function update(
  net: GatedDeltaNet,
  inputs: Inputs,
  row: number,
  state: Float32Array,
  output: Float32Array,
): void {
  const { keyHeads, keySize, valueHeads, valueSize, convolution } = net;
  const channels = convolution.weight.length / convolution.length;
  const waiting = state.subarray(0, (convolution.length - 1) * channels);
  const matrices = state.subarray(waiting.length);
  const fresh = inputs.channels.subarray(row * channels, (row + 1) * channels);
  const mixed = convolve(waiting, fresh, net.convolution).map(silu);
  const keysAt = keyHeads * keySize;
  for (let head = 0; head < keyHeads; head++) {
    toLength(mixed.subarray(head * keySize, (head + 1) * keySize), keySize ** -0.5);
    toLength(mixed.subarray(keysAt + head * keySize, keysAt + (head + 1) * keySize), 1);
  }
  for (let head = 0; head < valueHeads; head++) {
    const keyHead = keyHeadOf(net, head);
    const at = row * valueHeads + head;
    const decay =
      (net.decayRate[head] as number) *
      softplus((inputs.decays[at] as number) + (net.decayBias[head] as number));
    updateHead({
      matrix: matrices.subarray(head * keySize * valueSize, (head + 1) * keySize * valueSize),
      query: mixed.subarray(keyHead * keySize, (keyHead + 1) * keySize),
      key: mixed.subarray(keysAt + keyHead * keySize, keysAt + (keyHead + 1) * keySize),
      value: mixed.subarray(2 * keysAt + head * valueSize, 2 * keysAt + (head + 1) * valueSize),
      kept: Math.exp(decay),
      share: sigmoid(inputs.shares[at] as number),
      into: output.subarray(at * valueSize, (at + 1) * valueSize),
    });
  }
}

function keyHeadOf({ sharing, keyHeads, valueHeads }: GatedDeltaNet, head: number): number {
  return sharing === 'strided' ? head % keyHeads : Math.floor((head * keyHeads) / valueHeads);
}

interface HeadStep {
  readonly matrix: Float32Array;
  readonly query: Float32Array;
  readonly key: Float32Array;
  readonly value: Float32Array;
  readonly kept: number;
  readonly share: number;
  readonly into: Float32Array;
}

function updateHead({ matrix, query, key, value, kept, share, into }: HeadStep): void {
  const size = value.length;
  for (let column = 0; column < size; column++) {
    let known = 0;
    for (let k = 0; k < key.length; k++) {
      const faded = Math.fround((matrix[k * size + column] as number) * kept);
      matrix[k * size + column] = faded;
      known += faded * (key[k] as number);
    }
    const correction = share * ((value[column] as number) - known);
    let read = 0;
    for (let k = 0; k < key.length; k++) {
      const updated = Math.fround((matrix[k * size + column] as number) + (key[k] as number) * correction);
      matrix[k * size + column] = updated;
      read += updated * (query[k] as number);
    }
    into[column] = read;
  }
}

function toLength(values: Float32Array, length: number): void {
  let squares = LENGTH_EPSILON;
  for (const value of values) squares += value * value;
  const factor = length / Math.sqrt(squares);
  for (const [index, value] of values.entries()) values[index] = value * factor;
}
