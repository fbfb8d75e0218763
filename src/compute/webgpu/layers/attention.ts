// The operations of an attention: heads are made of its input, normalized, turned and stored, queries look at what is
// stored, and what they find is mapped back.

import type { AttentionSpec, CacheSpec, HeadNormSpec } from '../../../model/spec.ts';
import { type NormWeights, readNorm } from '../../../model/weight-reader.ts';
import { planOf } from '../attention-shapes.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { type AttendShape, attendKernel } from '../kernels/attend.ts';
import { attendManyKernel } from '../kernels/attend-many.ts';
import { mergeKernel } from '../kernels/merge.ts';
import { type HeadNorm, type RotateShape, rotatedHeads, rotateStoreKernel } from '../kernels/rotate-store.ts';
import type { Linears } from '../linears.ts';
import type { AttentionCounts, StepCounts } from '../plan-step.ts';
import type { ReplaceableBuffer } from '../replaceable-buffer.ts';
import { headValues } from '../widths.ts';

/** What attentions look at beside their input. */
export interface AttentionStores {
  /** One for each cache of the model. */
  readonly kv: readonly ReplaceableBuffer[];
  /** One for each rope of the model. */
  readonly turns: readonly GPUBuffer[];
}

export async function buildAttention(
  builder: Builder,
  linears: Linears,
  stores: AttentionStores,
  attention: AttentionSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { headCount, headSize, query, stored, gate } = attention;
  const { scratch, spec } = builder;
  const stride = headValues(attention);
  const specs = [query, stored?.key, stored?.value, gate].filter((linear) => linear !== undefined);
  const heads = await linears.load('attention', specs);
  linears.input([heads], input);
  await linears.multiply(heads, { buffer: scratch.heads, stride });
  await rotate(builder, stores, attention);
  await attend(builder, stores, attention);
  const back = await linears.load('output', [attention.output]);
  const width = headCount * headSize;
  linears.input([back], {
    making:
      gate === undefined ? { kind: 'plain' } : { kind: 'gated', stride, offset: stride - gate.weight.rows },
    size: width,
    stride: width,
    buffers: [scratch.attended, ...(gate === undefined ? [] : [scratch.heads])],
  });
  await linears.multiply(back, { ...output, stride: spec.hiddenSize });
}

/** Queries go where they are read, keys and values into the cache. */
async function rotate(builder: Builder, stores: AttentionStores, attention: AttentionSpec): Promise<void> {
  const { headCount, headSize, stored, rope, growth } = attention;
  const { spec, scratch } = builder;
  const { headCount: kvHeadCount } = spec.caches[attention.cache] as CacheSpec;
  const norms = new HeadNorms(builder);
  const keysAt = headCount * headSize;
  const shape: RotateShape = {
    headCount,
    headSize,
    stride: headValues(attention),
    stored: stored && {
      headCount: kvHeadCount,
      keysAt,
      valuesAt: stored.value === undefined ? keysAt : keysAt + kvHeadCount * headSize,
      keyNorm: norms.place(stored.keyNorm),
      valueNorm: norms.place(stored.valueNorm),
      layout: shapeOf(builder, attention).layout,
    },
    half: rope === undefined ? 0 : (spec.ropes[rope]?.inverseFrequencies.length ?? 0),
    queryNorm: norms.place(attention.queryNorm),
    normsAfterRope: attention.normsAfterRope === true,
    growth,
    epsilon: spec.normEpsilon,
  };
  const buffers = [
    scratch.step,
    scratch.heads,
    scratch.queries,
    ...(stored === undefined ? [] : [stores.kv[attention.cache] as ReplaceableBuffer]),
    ...(rope === undefined ? [] : [stores.turns[rope] as GPUBuffer]),
    ...(await builder.vectors('norms of heads', norms.vectors)),
  ];
  builder.add('rotate and store', rotateStoreKernel(shape), buffers, ({ rows }) => [
    rotatedHeads(shape),
    rows,
  ]);
}

/** How heads look at what is stored. */
type Sight = Pick<
  AttentionSpec,
  'headCount' | 'cache' | 'bidirectional' | 'window' | 'chunk' | 'scale' | 'softcap' | 'sinks'
>;

/** What each query finds, into `attended`. */
export async function attend(builder: Builder, stores: AttentionStores, attention: Sight): Promise<void> {
  const { step, queries, attended, attentionParts, shapes } = builder.scratch;
  const kv = stores.kv[attention.cache] as ReplaceableBuffer;
  const { kvHeadCount, layout, manyQueries } = shapeOf(builder, attention);
  const plan = planOf(shapes, builder.spec, attention);
  const sinks = await builder.vectors('sinks', [builder.vector(attention.sinks)]);
  const shape: AttendShape = {
    plan,
    headCount: attention.headCount,
    kvHeadCount,
    layout,
    bidirectional: attention.bidirectional,
    window: attention.window,
    chunk: attention.chunk,
    scale: attention.scale,
    softcap: attention.softcap,
    hasSinks: sinks.length > 0,
  };
  const grid =
    (count: (counts: AttentionCounts) => number) =>
    ({ attention: counts }: StepCounts) =>
      [count(counts[plan] as AttentionCounts), kvHeadCount] as const;
  const few = [step, queries, kv, attended, attentionParts, kv, ...sinks];
  builder.add(
    'attend',
    attendKernel(shape),
    few,
    grid(({ items }) => items),
  );
  if (manyQueries > 0) {
    const text = attendManyKernel({ ...shape, queries: manyQueries });
    const many = [step, queries, kv, attended, kv, ...sinks];
    builder.add(
      'attend many',
      text,
      many,
      grid(({ many: items }) => items),
    );
  }
  const merged = [step, attentionParts, attended, ...sinks];
  builder.add(
    'merge',
    mergeKernel(shape),
    merged,
    grid(({ merges }) => merges),
  );
}

export function shapeOf(
  { scratch, spec }: Builder,
  attention: Pick<Sight, 'headCount' | 'cache' | 'bidirectional'>,
) {
  const shape = scratch.shapes[planOf(scratch.shapes, spec, attention)];
  if (shape === undefined) throw new Error('an attention has a shape that no plan is made for');
  return shape;
}

/** Norms of heads, whose weights and biases share one buffer. */
class HeadNorms {
  readonly vectors: Float32Array[] = [];
  readonly #builder: Builder;
  #floats = 0;

  constructor(builder: Builder) {
    this.#builder = builder;
  }

  place(spec: HeadNormSpec | undefined): HeadNorm | undefined {
    if (spec === undefined) return undefined;
    const { kind, weight, bias }: NormWeights = readNorm(this.#builder.loader.weights, spec.norm);
    const norm = { kind, weight: weight !== undefined, bias: bias !== undefined };
    return { norm, over: spec.over, weightAt: this.#put(weight), biasAt: this.#put(bias) };
  }

  #put(vector: Float32Array | undefined): number {
    const at = this.#floats;
    if (vector !== undefined) {
      this.vectors.push(vector);
      this.#floats += vector.length;
    }
    return at;
  }
}
