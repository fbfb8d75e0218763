// LAuReL: a low-rank map of one layer, parallel to attention (Gemma 3n).

import type { LayerBuilder } from '../layer-builder.ts';
import type { LinearSpec, NormSpec } from '../leaves.ts';

/** `x + norm(up(down(x)))`. */
export interface LaurelSpec {
  readonly kind: 'laurel';
  readonly down: LinearSpec;
  readonly up: LinearSpec;
  readonly norm: NormSpec;
}

const names = {
  laurelDown: { hub: 'laurel.linear_left', gguf: 'laurel_l' },
  laurelUp: { hub: 'laurel.linear_right', gguf: 'laurel_r' },
  laurelNorm: { hub: 'laurel.post_laurel_norm', gguf: 'laurel_post_norm' },
};

export function laurel(layer: LayerBuilder, { rank }: { readonly rank: number }): LaurelSpec {
  const { hiddenSize } = layer.sizes;
  const leaves = layer.leaves(names);
  return {
    kind: 'laurel',
    down: leaves.linear('laurelDown', { rows: rank, columns: hiddenSize, adaptable: false }),
    up: leaves.linear('laurelUp', { rows: hiddenSize, columns: rank, adaptable: false }),
    norm: leaves.norm('laurelNorm', hiddenSize),
  };
}
