// Attention of one layer, with keys and values in the KV cache.

import type { ModelFileError } from '../../weights/model-file-error.ts';
import { configError } from '../config.ts';
import { defined, type LayerBuilder, type Leaves } from '../layer-builder.ts';
import type { InterleavedHeads, LinearSpec, NormSpec, VectorSpec } from '../leaves.ts';

/**
 * A norm over each head of queries or keys, with the same weights for all or weights of its own for each; or over all of
 * them together.
 */
export interface HeadNormSpec {
  readonly norm: NormSpec;
  readonly over: 'head' | 'each' | 'all';
}

/** Keys and values that an attention makes of its input and stores. */
export interface StoredSpec {
  readonly key: LinearSpec;
  /** Absent: the keys, before their norm and rotation. */
  readonly value?: LinearSpec;
  readonly keyNorm?: HeadNormSpec;
  readonly valueNorm?: HeadNormSpec;
}

export interface AttentionSpec {
  readonly kind: 'attention';
  readonly headCount: number;
  readonly headSize: number;
  /** Index into `ModelSpec.caches`: where its keys and values lie. */
  readonly cache: number;
  readonly query: LinearSpec;
  /** Absent where they are those of an attention before, which shares the cache. */
  readonly stored?: StoredSpec;
  readonly output: LinearSpec;
  readonly queryNorm?: HeadNormSpec;
  /** Norms of queries and keys come after the rotary embedding, not before. */
  readonly normsAfterRope?: true;
  /** Index into `ModelSpec.ropes`; absent: no positional encoding (NoPE). */
  readonly rope?: number;
  /** A token also sees later ones, to the end of its text, which is all in one step. */
  readonly bidirectional?: true;
  /** Tokens of one image also see those after them, whatever the window: see `Batch.imageEnds`. */
  readonly imagesBothWays?: true;
  /** A token sees itself and at most `window - 1` tokens on each side that it sees; absent: all of them. */
  readonly window?: number;
  /** A token sees tokens of its own chunk of N alone, none after itself; absent: of all chunks. */
  readonly chunk?: number;
  /** Of an MTP head: the first position of a text is not seen by those after it. */
  readonly skipsFirst?: true;
  /** Factor on q·k before the softmax. */
  readonly scale: number;
  /** `cap * tanh(score / cap)`, where set. */
  readonly softcap?: number;
  /** A score for each head that takes part in the softmax and stands for no token. */
  readonly sinks?: VectorSpec;
  /** What is attended to is multiplied by the sigmoid of this. */
  readonly gate?: LinearSpec;
  /** Attention temperature tuning (Llama 4), a factor on queries by position: `1 + weight * log(1 + floor((position + shift) / length))`. */
  readonly growth?: { readonly weight: number; readonly length: number; readonly shift: number };
}

export interface AttentionOptions {
  /** As `ModelBuilder.rope` numbers it; absent: NoPE. */
  readonly rope?: number | undefined;
  readonly window?: number | undefined;
  readonly chunk?: number | undefined;
  readonly bidirectional?: boolean;
  readonly imagesBothWays?: boolean;
  readonly skipsFirst?: boolean;
  /** Values of a row that it reads; absent: those of a state. */
  readonly inputSize?: number;
  /** `headSize ** -0.5` where absent. */
  readonly scale?: number;
  readonly softcap?: number | undefined;
  readonly growth?: AttentionSpec['growth'] | undefined;
  readonly headSize?: number | undefined;
  readonly kvHeadCount?: number | undefined;
  /** Over what; or over each head without weights. */
  readonly queryKeyNorm?: HeadNormSpec['over'] | 'unscaled' | undefined;
  readonly normsAfterRope?: boolean;
  /** Heads of values are normalized, without weights. */
  readonly valueNorm?: boolean;
  readonly sinks?: boolean;
  /** Each head of q is followed by the gate of its output. */
  readonly gated?: boolean;
  readonly fused?: boolean;
  readonly queryKeyValueBias?: boolean;
  readonly outputBias?: boolean;
  /** q and k rows stored for rotary pairs (2i, 2i + 1). */
  readonly interleaved?: boolean;
  /** The cache of an earlier attention, whose keys and values this one reads. */
  readonly sharedCache?: number | undefined;
  /** Values are keys before their norm; or where the file stores no values. */
  readonly valuesAreKeys?: boolean | 'unless-stored';
}

const names = {
  query: { hub: 'self_attn.q_proj', gguf: 'attn_q' },
  key: { hub: 'self_attn.k_proj', gguf: 'attn_k' },
  value: { hub: 'self_attn.v_proj', gguf: 'attn_v' },
  queryKeyValue: { hub: 'self_attn.qkv_proj', gguf: 'attn_qkv' },
  output: { hub: 'self_attn.o_proj', gguf: 'attn_output' },
  queryNorm: { hub: 'self_attn.q_norm', gguf: 'attn_q_norm' },
  keyNorm: { hub: 'self_attn.k_norm', gguf: 'attn_k_norm' },
  sinks: { hub: { weight: 'self_attn.sinks' }, gguf: 'attn_sinks' },
};

type Role = keyof typeof names;

/** Sizes of this attention, and how its heads are stored. */
interface Heads {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly pairs: (heads: number) => { readonly interleaved?: InterleavedHeads };
}

export function attention(layer: LayerBuilder, options: AttentionOptions): AttentionSpec {
  if (options.skipsFirst && (options.window ?? options.chunk) !== undefined) throw partOfText(layer);
  const leaves = layer.leaves(names);
  const heads = headsOf(layer, options);
  const { headCount, kvHeadCount, headSize } = heads;
  const { query, gate, key, value } = projections(layer, leaves, heads, options);
  const { sharedCache, valuesAreKeys } = options;
  const isKey = valuesAreKeys === 'unless-stored' ? !leaves.names.has('value') : valuesAreKeys;
  const stored = defined({
    key,
    value: isKey ? undefined : value,
    keyNorm: headNorm(layer, leaves, heads, options, 'keyNorm'),
    valueNorm: options.valueNorm ? unscaled(headSize) : undefined,
  });
  return defined({
    kind: 'attention',
    headCount,
    headSize,
    cache: sharedCache ?? layer.addCache({ headCount: kvHeadCount, headSize }),
    query,
    stored: sharedCache === undefined ? stored : undefined,
    output: leaves.linear('output', {
      rows: layer.sizes.hiddenSize,
      columns: headCount * headSize,
      bias: options.outputBias,
    }),
    queryNorm: headNorm(layer, leaves, heads, options, 'queryNorm'),
    normsAfterRope: options.normsAfterRope || undefined,
    rope: options.rope,
    bidirectional: options.bidirectional || undefined,
    imagesBothWays: options.imagesBothWays || undefined,
    window: options.window,
    chunk: options.chunk,
    skipsFirst: options.skipsFirst || undefined,
    scale: options.scale ?? headSize ** -0.5,
    softcap: options.softcap,
    sinks: options.sinks ? leaves.vector('sinks', headCount) : undefined,
    gate,
    growth: options.growth,
  });
}

function partOfText({ shared }: LayerBuilder): ModelFileError {
  const problem = 'cuts what the attention of an MTP head sees, which is not supported';
  return configError(shared.source.config, 'sliding_window', problem, 'The model answers without its head.');
}

function headsOf({ sizes, shared }: LayerBuilder, options: AttentionOptions): Heads {
  // Also in layers that rotate nothing: converters sort those like the others.
  const rope = options.interleaved ? shared.ropes[options.rope ?? 0] : undefined;
  const rotated = 2 * (rope?.inverseFrequencies.length ?? 0);
  return {
    headCount: sizes.headCount,
    kvHeadCount: options.kvHeadCount ?? sizes.kvHeadCount,
    headSize: options.headSize ?? sizes.headSize,
    pairs: (heads) => (rope === undefined ? {} : { interleaved: { heads, rotated } }),
  };
}

function projections(
  { sizes }: LayerBuilder,
  leaves: Leaves<Role>,
  { headCount, kvHeadCount, headSize, pairs }: Heads,
  { fused, gated, queryKeyValueBias: bias, inputSize = sizes.hiddenSize }: AttentionOptions,
) {
  const common = { columns: inputSize, bias };
  const queryRows = headCount * headSize;
  const kvRows = kvHeadCount * headSize;
  const queries = { ...common, rows: queryRows };
  const alternating = gated ? { runs: { rows: headSize, every: 2 * headSize } } : {};
  const queryRole = fused ? 'queryKeyValue' : 'query';
  return {
    query: leaves.linear(queryRole, { ...queries, ...alternating, ...pairs(headCount) }),
    gate: gated ? leaves.linear(queryRole, { ...queries, ...alternating, firstRow: headSize }) : undefined,
    key: leaves.linear(fused ? 'queryKeyValue' : 'key', {
      ...common,
      rows: kvRows,
      firstRow: fused ? queryRows : 0,
      ...pairs(kvHeadCount),
    }),
    value: leaves.linear(fused ? 'queryKeyValue' : 'value', {
      ...common,
      rows: kvRows,
      firstRow: fused ? queryRows + kvRows : 0,
    }),
  };
}

function headNorm(
  { shared }: LayerBuilder,
  leaves: Leaves<Role>,
  { headCount, kvHeadCount, headSize, pairs }: Heads,
  { queryKeyNorm: over }: AttentionOptions,
  role: 'queryNorm' | 'keyNorm',
): HeadNormSpec | undefined {
  if (over === undefined) return undefined;
  if (over === 'unscaled') return unscaled(headSize, shared.normOptions.kind);
  const count = role === 'queryNorm' ? headCount : kvHeadCount;
  const heads = over === 'head' ? 1 : count;
  const { bias: _, ...norm } = leaves.norm(role, headSize * heads);
  const weight =
    over === 'each' ? { weight: headWeights(leaves, role, count, shared.source.opened.weights) } : {};
  return { norm: { ...norm, ...weight, ...pairs(heads) }, over };
}

function unscaled(size: number, kind: NormSpec['kind'] = 'rms'): HeadNormSpec {
  return { norm: { leaf: 'norm', kind, size }, over: 'head' };
}

/** One tensor, or one for each head; no more than one beyond those that the file has. */
function headWeights(
  { names }: Leaves<Role>,
  role: Role,
  heads: number,
  { tensors }: { readonly tensors: ReadonlyMap<string, unknown> },
): string | string[] {
  const [first, second] = [names.weight(role, 0), names.weight(role, 1)];
  if (first === second) return first;
  return Array.from({ length: Math.min(heads, tensors.size + 1) }, (_, head) => names.weight(role, head));
}
