// Attention: queries, keys and values are made of the input, normalized, rotated and stored; queries attend to what is
// stored, and the result is mapped back.

import type { AttentionSpec, CacheSpec, HeadNormSpec } from '../../../model/spec.ts';
import { readNorm } from '../../../model/weight-reader.ts';
import type { WeightSource } from '../../../weights/weight-source.ts';
import { type DeclaredBuffer, type InputSource, joined, type LayerOutput } from '../builder.ts';
import { type AttendShape, attendKernel, mergeKernel } from '../kernels/attention.ts';
import {
  axesPlace,
  type HeadNorm,
  type RotateShape,
  rotatedHeads,
  rotateStoreKernel,
} from '../kernels/rope.ts';
import { attendManyKernel } from '../kernels/tiled-attention.ts';
import type { LayerBuilder } from '../linears.ts';
import type { AttentionCounts, StepCounts } from '../plan-step.ts';

export function buildAttention(
  builder: LayerBuilder,
  attention: AttentionSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { headCount, headSize, query, stored, gate } = attention;
  const { linears, spec } = builder;
  const specs = [query, stored?.key, stored?.value, gate].filter((linear) => linear !== undefined);
  const stride = specs.reduce((sum, { weight }) => sum + weight.rows, 0);
  const projections = builder.scratch('projections', stride);
  const heads = linears.load('attention', specs);
  linears.input([heads], input);
  linears.multiply(heads, { buffer: projections, stride });
  const width = headCount * headSize;
  const queries = builder.scratch('queries', width);
  rotate(builder, attention, { projections, stride, queries });
  const attended = attend(builder, attention, queries, width);
  const back = linears.load('output', [attention.output]);
  linears.input([back], {
    making:
      gate === undefined ? { kind: 'plain' } : { kind: 'gated', stride, offset: stride - gate.weight.rows },
    size: width,
    stride: width,
    buffers: [attended, ...(gate === undefined ? [] : [projections])],
  });
  linears.multiply(back, { ...output, stride: spec.hiddenSize });
}

interface ProjectedRows {
  readonly projections: DeclaredBuffer;
  /** From one row of them to the next. */
  readonly stride: number;
  readonly queries: DeclaredBuffer;
}

/** Queries go where they are read, keys and values into the cache. */
function rotate(
  builder: LayerBuilder,
  attention: AttentionSpec,
  { projections, stride, queries }: ProjectedRows,
): void {
  const { headCount, headSize, stored, rope, growth } = attention;
  const { spec, scratchPlan, shapes } = builder;
  const { headCount: kvHeadCount } = spec.caches[attention.cache] as CacheSpec;
  const turns = rope === undefined ? undefined : spec.ropes[rope];
  const norms = new HeadNorms();
  const keysAt = headCount * headSize;
  const shape: RotateShape = {
    headCount,
    headSize,
    stride,
    stored: stored && {
      headCount: kvHeadCount,
      keysAt,
      valuesAt: stored.value === undefined ? keysAt : keysAt + kvHeadCount * headSize,
      keyNorm: norms.place(stored.keyNorm),
      valueNorm: norms.place(stored.valueNorm),
      layout: shapes.of(attention).layout,
    },
    half: turns?.inverseFrequencies.length ?? 0,
    axesAt: turns?.axes && spec.vision ? axesPlace(turns, spec.contextLength) : undefined,
    queryNorm: norms.place(attention.queryNorm),
    normsAfterRope: attention.normsAfterRope === true,
    growth,
    epsilon: spec.normEpsilon,
  };
  const buffers = [
    scratchPlan.step,
    projections,
    queries,
    ...(stored === undefined ? [] : [builder.kv[attention.cache] as DeclaredBuffer]),
    ...(rope === undefined ? [] : [builder.ropeTables[rope] as DeclaredBuffer]),
    ...(norms.floats === 0 ? [] : [builder.filled('norms of heads', (weights) => norms.read(weights))]),
  ];
  builder.add(
    'rotate and store',
    () => rotateStoreKernel(shape),
    buffers,
    ({ rows }) => [rotatedHeads(shape), rows],
  );
}

/** How heads attend to a cache. */
type Attending = Pick<
  AttentionSpec,
  | 'headCount'
  | 'cache'
  | 'bidirectional'
  | 'imagesBothWays'
  | 'window'
  | 'chunk'
  | 'scale'
  | 'softcap'
  | 'sinks'
>;

/** Attends with each query; gives the buffer of results, in rows of `width` values. */
export function attend(
  builder: LayerBuilder,
  attention: Attending,
  queries: DeclaredBuffer,
  width: number,
): DeclaredBuffer {
  const { step } = builder.scratchPlan;
  const { plan, kvHeadCount, imagesBothWays, layout, manyQueries, partBytes } = builder.shapes.of(attention);
  const kv = builder.kv[attention.cache] as DeclaredBuffer;
  const attended = builder.scratch('mixer output', width);
  const parts = builder.scratchPlan.fixed('attention parts', partBytes);
  const sinks = builder.vectors('sinks', [attention.sinks]);
  const shape: AttendShape = {
    plan,
    headCount: attention.headCount,
    kvHeadCount,
    layout,
    bidirectional: attention.bidirectional,
    imagesBothWays,
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
  builder.add(
    'attend',
    () => attendKernel(shape),
    [step, queries, kv, attended, parts, kv, ...sinks],
    grid(({ items }) => items),
  );
  if (manyQueries > 0) {
    builder.add(
      'attend many',
      () => attendManyKernel({ ...shape, queries: manyQueries }),
      [step, queries, kv, attended, kv, ...sinks],
      grid(({ many: items }) => items),
    );
  }
  builder.add(
    'merge',
    () => mergeKernel(shape),
    [step, parts, attended, ...sinks],
    grid(({ merges }) => merges),
  );
  return attended;
}

/** Norms of heads, whose weights and biases share one buffer. */
class HeadNorms {
  readonly #specs: HeadNormSpec[] = [];
  floats = 0;

  place(spec: HeadNormSpec | undefined): HeadNorm | undefined {
    if (spec === undefined) return undefined;
    const { kind, size } = spec.norm;
    const norm = { kind, weight: spec.norm.weight !== undefined, bias: spec.norm.bias !== undefined };
    const weightAt = this.floats;
    const biasAt = weightAt + (norm.weight ? size : 0);
    this.floats = biasAt + (norm.bias ? size : 0);
    this.#specs.push(spec);
    return { norm, over: spec.over, weightAt, biasAt };
  }

  read(weights: WeightSource): Float32Array<ArrayBuffer> {
    const norms = this.#specs.map(({ norm }) => readNorm(weights, norm));
    return joined(norms.flatMap(({ weight, bias }) => [weight, bias]));
  }
}
