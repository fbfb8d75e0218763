// How large a memory of the layers without K/V is: first the channels of the last tokens, the oldest first, as far as the
// convolution reaches back; then what the body has learnt, head by head.

import type { DeltaNetSpec, MemorySpec, ShortConvolutionSpec, StateSpaceSpec } from './spec.ts';

export type RememberingSpec = DeltaNetSpec | ShortConvolutionSpec | StateSpaceSpec;

/** Values of one token that are convolved with those before. */
export function channelsOf({ convolution }: RememberingSpec): number {
  return convolution.weight.size / convolution.length;
}

export function memoryOf(body: RememberingSpec): MemorySpec {
  return { size: (body.convolution.length - 1) * channelsOf(body) + learntSize(body) };
}

function learntSize(body: RememberingSpec): number {
  switch (body.kind) {
    case 'delta-net':
      return body.valueHeads * body.keySize * body.valueSize;
    case 'short-convolution':
      return 0;
    case 'state-space':
      return body.heads * body.headSize * body.stateSize;
  }
}
