// The shapes of a model's attentions: those of one shape are shared out among workgroups alike, by one plan of a step.

import type { AttentionSpec, CacheSpec, ModelSpec } from '../../model/spec.ts';
import { bodiesOf } from '../../model/spec-walk.ts';
import type { KvType } from '../backend.ts';
import type { GpuInfo } from './gpu.ts';
import { attendBytes, partFloats, queryLanes } from './kernels/attend.ts';
import { manyQueries } from './kernels/attend-many.ts';
import { type KvLayout, kvLayout } from './kernels/kv-layout.ts';
import { GpuMemoryError } from './memory.ts';
import type { AttentionShape } from './plan-step.ts';

/** Workgroups of attention that keep a large GPU busy. */
const BUSY_WORKGROUPS = 1024;
/** Workgroups of many queries each that do so well enough. */
const MANY_WORKGROUPS = 64;
/** What parts that wait for a merge may take. */
const PART_BYTES = 64 << 20;

export interface PlannedShape extends AttentionShape {
  readonly layout: KvLayout;
  /** Bytes of all parts that can wait. */
  readonly partBytes: number;
}

/** Whatever looks at a cache. */
type Looking = Pick<AttentionSpec, 'headCount' | 'cache' | 'bidirectional'>;

const cacheOf = ({ caches }: ModelSpec, { cache }: Looking): CacheSpec => caches[cache] as CacheSpec;

const seesBothSides = ({ bidirectional }: Looking): boolean => bidirectional === true;

/** Each shape once. */
export function attentionShapes(
  spec: ModelSpec,
  kvType: KvType,
  limits: Pick<GpuInfo['limits'], 'bindingBytes' | 'workgroupBytes'>,
): PlannedShape[] {
  const shapes: PlannedShape[] = [];
  for (const attention of bodiesOf(spec)) {
    if (attention.kind !== 'attention' && attention.kind !== 'mla') continue;
    if (planOf(shapes, spec, attention) !== -1) continue;
    const { headCount } = attention;
    const { headCount: kvHeadCount, headSize } = cacheOf(spec, attention);
    const layout = kvLayout(kvType, headSize, kvHeadCount);
    const needed = attendBytes(headCount, kvHeadCount, layout);
    if (needed > limits.workgroupBytes) {
      throw new GpuMemoryError(
        `heads of ${headSize} values take ${needed} bytes of workgroup memory, more than this GPU has (${limits.workgroupBytes})`,
      );
    }
    const bytes = 4 * kvHeadCount * queryLanes(headCount, kvHeadCount) * partFloats(layout);
    const mostParts = Math.max(1, Math.floor(Math.min(PART_BYTES, limits.bindingBytes) / bytes));
    shapes.push({
      headCount,
      kvHeadCount,
      bidirectional: seesBothSides(attention),
      layout,
      mostParts,
      partBytes: mostParts * bytes,
      busyWorkgroups: BUSY_WORKGROUPS,
      manyQueries: manyQueries(layout, limits),
      manyWorkgroups: MANY_WORKGROUPS,
    });
  }
  return shapes;
}

/** Which of the shapes, and so which of the plans, is an attention's. */
export function planOf(shapes: readonly PlannedShape[], spec: ModelSpec, attention: Looking): number {
  const cache = cacheOf(spec, attention);
  return shapes.findIndex(
    ({ headCount, kvHeadCount, bidirectional, layout }) =>
      headCount === attention.headCount &&
      kvHeadCount === cache.headCount &&
      bidirectional === seesBothSides(attention) &&
      layout.headSize === cache.headSize,
  );
}
