// Multi-head latent attention (MLA) of one layer.

import { defined, type LayerBuilder, type Leaves } from '../layer-builder.ts';
import type { LinearSpec, NormSpec } from '../leaves.ts';

/**
 * Of each token `kvLoraRank` values are stored, of which keys and values of all heads could be made, followed by
 * `qkRopeHeadDim` values of a key that heads share. Keys are never made: queries are brought to the latent instead, what they
 * gather there is brought to values (W_UK and W_UV are absorbed). Prompts and single tokens are computed alike.
 */
export interface MlaSpec {
  readonly kind: 'mla';
  readonly headCount: number;
  /** Of one head with `kvLoraRank + qkRopeHeadDim` values, the first `kvLoraRank` of which are the values. */
  readonly cache: number;
  readonly kvLoraRank: number;
  /** Values of a query that are not rotated, and values that are. */
  readonly qkNopeHeadDim: number;
  readonly qkRopeHeadDim: number;
  readonly vHeadDim: number;
  /** What queries are made of, where that is not the input itself: `norm(down(x))`. */
  readonly queryInput?: { readonly down: LinearSpec; readonly norm: NormSpec };
  readonly query: LinearSpec;
  readonly queryRope: LinearSpec;
  readonly kvDown: LinearSpec;
  readonly kvNorm: NormSpec;
  readonly keyRope: LinearSpec;
  /** For each head `kvLoraRank` rows, over the `qkNopeHeadDim` values of its own query. */
  readonly keyUp: LinearSpec;
  /** For each head `vHeadDim` rows, over the `kvLoraRank` values that it gathered. */
  readonly valueUp: LinearSpec;
  readonly output: LinearSpec;
  readonly rope: number;
  /** Of an MTP head: the first position of a text is not seen by those after it. */
  readonly skipsFirst?: true;
  /** Factor on q·k before the softmax. */
  readonly scale: number;
}

interface MlaOptions extends Pick<MlaSpec, 'kvLoraRank' | 'qkNopeHeadDim' | 'qkRopeHeadDim' | 'vHeadDim'> {
  /** Of what queries are made of, where it is not the input. */
  readonly qLoraRank?: number | undefined;
  readonly rope: number;
  readonly scale: number;
  readonly bias?: boolean;
  /** Rotated rows stored for rotary pairs (2i, 2i + 1). */
  readonly interleaved?: boolean;
  readonly skipsFirst?: boolean;
}

const names = {
  query: { hub: 'self_attn.q_proj', gguf: 'attn_q' },
  queryDown: { hub: 'self_attn.q_a_proj', gguf: 'attn_q_a' },
  queryDownNorm: { hub: 'self_attn.q_a_layernorm', gguf: 'attn_q_a_norm' },
  queryUp: { hub: 'self_attn.q_b_proj', gguf: 'attn_q_b' },
  kvDown: { hub: 'self_attn.kv_a_proj_with_mqa', gguf: 'attn_kv_a_mqa' },
  kvNorm: { hub: 'self_attn.kv_a_layernorm', gguf: 'attn_kv_a_norm' },
  kvUp: { hub: 'self_attn.kv_b_proj', gguf: 'attn_kv_b' },
  output: { hub: 'self_attn.o_proj', gguf: 'attn_output' },
  keyUp: { mlx: 'self_attn.embed_q', gguf: 'attn_k_b' },
  valueUp: { mlx: 'self_attn.unembed_out', gguf: 'attn_v_b' },
};

type Role = keyof typeof names;

export function mla(layer: LayerBuilder, options: MlaOptions): MlaSpec {
  const { headCount, hiddenSize } = layer.sizes;
  const { qLoraRank, kvLoraRank, qkNopeHeadDim, qkRopeHeadDim, vHeadDim, bias } = options;
  const leaves = layer.leaves(names);
  const ofInput = { columns: hiddenSize, bias };
  const pairs = (heads: number) =>
    options.interleaved ? { interleaved: { heads, rotated: qkRopeHeadDim } } : {};
  const queryRole = qLoraRank === undefined ? 'query' : 'queryUp';
  // Each head has what is not rotated first.
  const every = qkNopeHeadDim + qkRopeHeadDim;
  return defined({
    kind: 'mla',
    headCount,
    cache: layer.addCache({ headCount: 1, headSize: kvLoraRank + qkRopeHeadDim, valuesInKeys: kvLoraRank }),
    kvLoraRank,
    qkNopeHeadDim,
    qkRopeHeadDim,
    vHeadDim,
    queryInput:
      qLoraRank === undefined
        ? undefined
        : {
            down: leaves.linear('queryDown', { ...ofInput, rows: qLoraRank }),
            norm: leaves.norm('queryDownNorm', qLoraRank),
          },
    query: leaves.linear(queryRole, {
      columns: qLoraRank ?? hiddenSize,
      rows: headCount * qkNopeHeadDim,
      runs: { rows: qkNopeHeadDim, every },
    }),
    queryRope: leaves.linear(queryRole, {
      columns: qLoraRank ?? hiddenSize,
      firstRow: qkNopeHeadDim,
      rows: headCount * qkRopeHeadDim,
      runs: { rows: qkRopeHeadDim, every },
      ...pairs(headCount),
    }),
    kvDown: leaves.linear('kvDown', { ...ofInput, rows: kvLoraRank }),
    kvNorm: leaves.norm('kvNorm', kvLoraRank),
    keyRope: leaves.linear('kvDown', { ...ofInput, firstRow: kvLoraRank, rows: qkRopeHeadDim, ...pairs(1) }),
    ...upProjections(leaves, headCount, options),
    output: leaves.linear('output', { rows: hiddenSize, columns: headCount * vHeadDim, bias }),
    rope: options.rope,
    skipsFirst: options.skipsFirst || undefined,
    scale: options.scale,
  });
}

function upProjections(
  leaves: Leaves<Role>,
  members: number,
  { kvLoraRank, qkNopeHeadDim, vHeadDim }: MlaOptions,
): Readonly<Record<'keyUp' | 'valueUp', LinearSpec>> {
  const heads = { members, adaptable: false } as const;
  const keys = { rows: members * kvLoraRank, columns: qkNopeHeadDim, ...heads };
  const values = { rows: members * vHeadDim, columns: kvLoraRank, ...heads };
  if (leaves.names.has('keyUp')) {
    return { keyUp: leaves.linear('keyUp', keys), valueUp: leaves.linear('valueUp', values) };
  }
  // Each head has its rows of keys first, then those of values.
  const every = qkNopeHeadDim + vHeadDim;
  const runs = { rows: vHeadDim, every };
  return {
    keyUp: leaves.linear('kvUp', { ...keys, transposed: { rows: kvLoraRank, every } }),
    valueUp: leaves.linear('kvUp', { ...values, firstRow: qkNopeHeadDim, runs }),
  };
}
