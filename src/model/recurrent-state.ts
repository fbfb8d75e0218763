// How large a memory of the layers without KV is: first the channels of the last tokens, the oldest first, as far as the
// convolution reaches back; then what the body has learnt, head by head.

import type { GatedDeltaNetSpec, Mamba2Spec, RecurrentStateSpec, ShortConvSpec } from './spec.ts';

export type RecurrentSpec = GatedDeltaNetSpec | ShortConvSpec | Mamba2Spec;

/** Values of one token that are convolved with those before. */
export function channelsOf({ convolution }: RecurrentSpec): number {
  return convolution.weight.size / convolution.length;
}

export function memoryOf(body: RecurrentSpec): RecurrentStateSpec {
  return { size: (body.convolution.length - 1) * channelsOf(body) + learntSize(body) };
}

function learntSize(body: RecurrentSpec): number {
  switch (body.kind) {
    case 'gated-delta-net':
      return body.valueHeads * body.keySize * body.valueSize;
    case 'short-conv':
      return 0;
    case 'mamba2':
      return body.heads * body.headSize * body.stateSize;
  }
}
