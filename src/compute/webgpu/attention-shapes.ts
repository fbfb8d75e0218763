// The shapes of a model's attentions: those of one shape are divided among workgroups alike, by one plan of a step.

import type { AttentionSpec, CacheSpec, ModelSpec } from '../../model/spec.ts';
import type { KvType } from '../backend.ts';
import type { GpuInfo } from './gpu.ts';
import { attendBytes, partFloats, queryLanes } from './kernels/attention.ts';
import { type KvLayout, kvLayout } from './kernels/kv-layout.ts';
import { manyQueries } from './kernels/tiled-attention.ts';
import { GpuMemoryError } from './memory.ts';
import type { AttentionShape } from './plan-step.ts';

/** Workgroups of attention that keep a large GPU busy. */
const BUSY_WORKGROUPS = 1024;
/** Workgroups of many queries each that do so well enough. */
const MANY_WORKGROUPS = 64;
/** What parts that wait for a merge may take. */
const PART_BYTES = 64 << 20;

interface PlannedShape extends AttentionShape {
  /** Its index among a model's shapes, and so among the plans of a step. */
  readonly plan: number;
  readonly layout: KvLayout;
  /** Bytes of all parts that can wait. */
  readonly partBytes: number;
}

export class AttentionShapes {
  readonly all: PlannedShape[] = [];
  readonly #spec: ModelSpec;
  readonly #kvType: KvType;
  readonly #limits: Pick<GpuInfo['limits'], 'bindingBytes' | 'workgroupBytes'>;

  constructor(
    spec: ModelSpec,
    kvType: KvType,
    limits: Pick<GpuInfo['limits'], 'bindingBytes' | 'workgroupBytes'>,
  ) {
    this.#spec = spec;
    this.#kvType = kvType;
    this.#limits = limits;
  }

  /** The shape of an attention; throws GpuMemoryError where the GPU cannot compute it. */
  of(
    attention: Pick<AttentionSpec, 'headCount' | 'cache' | 'bidirectional' | 'imagesBothWays'>,
  ): PlannedShape {
    const { headCount } = attention;
    const sees = {
      bidirectional: attention.bidirectional === true,
      imagesBothWays: attention.imagesBothWays === true && this.#spec.vision !== undefined,
    };
    const cache = this.#spec.caches[attention.cache] as CacheSpec;
    const known = this.all.find(
      (shape) =>
        shape.headCount === headCount &&
        shape.kvHeadCount === cache.headCount &&
        shape.bidirectional === sees.bidirectional &&
        shape.imagesBothWays === sees.imagesBothWays &&
        shape.layout.headSize === cache.headSize,
    );
    if (known !== undefined) return known;
    const shape = this.#plan(headCount, cache, sees);
    this.all.push(shape);
    return shape;
  }

  #plan(
    headCount: number,
    { headCount: kvHeadCount, headSize }: CacheSpec,
    sees: Pick<AttentionShape, 'bidirectional' | 'imagesBothWays'>,
  ): PlannedShape {
    const { bindingBytes, workgroupBytes } = this.#limits;
    const layout = kvLayout(this.#kvType, headSize, kvHeadCount);
    const needed = attendBytes(headCount, kvHeadCount, layout);
    if (needed > workgroupBytes) {
      throw new GpuMemoryError(
        `heads of ${headSize} values take ${needed} bytes of workgroup memory, more than this GPU has (${workgroupBytes})`,
      );
    }
    const bytes = 4 * kvHeadCount * queryLanes(headCount, kvHeadCount) * partFloats(layout);
    const mostParts = Math.max(1, Math.floor(Math.min(PART_BYTES, bindingBytes) / bytes));
    return {
      plan: this.all.length,
      headCount,
      kvHeadCount,
      ...sees,
      layout,
      mostParts,
      partBytes: mostParts * bytes,
      busyWorkgroups: BUSY_WORKGROUPS,
      manyQueries: manyQueries(layout, this.#limits),
      manyWorkgroups: MANY_WORKGROUPS,
    };
  }
}
