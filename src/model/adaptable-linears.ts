// The linear maps of a model that adapters may add to, each with a place that is the same whatever its tensors are called.

import { mapLeaves } from './leaves.ts';
import type { BodySpec, LinearSpec, ModelSpec, NormSpec, TableSpec, VectorSpec } from './spec.ts';

/** Which expert a map is of, where it is of one. */
export interface ExpertPlace {
  readonly index: number;
  readonly count: number;
}

/** What becomes of a linear map, by its place. */
type Adapt = (linear: LinearSpec, place: string, expert?: ExpertPlace) => LinearSpec;

interface SameLeaves {
  readonly linear: LinearSpec;
  readonly norm: NormSpec;
  readonly vector: VectorSpec;
  readonly table: TableSpec;
}

export function mapLinears(spec: ModelSpec, adapt: Adapt): ModelSpec {
  const layers = spec.layers.map((layer, index) => ({
    ...layer,
    branches: layer.branches.map((branch, at) => ({
      ...branch,
      parts: branch.parts.map((part, nth) => ({
        ...part,
        body: mapBody(part.body, `${index}.${at}.${nth}`, adapt),
      })),
    })),
  }));
  return { ...spec, layers, head: adapt(spec.head, 'head') };
}

export function linearsByPlace(spec: ModelSpec): ReadonlyMap<string, LinearSpec> {
  const all = new Map<string, LinearSpec>();
  mapLinears(spec, (linear, place) => {
    all.set(place, linear);
    return linear;
  });
  return all;
}

/** Maps of Gemma's layer inputs and low ranks, and maps for each head, have no place that publishers agree on. */
function mapBody(body: BodySpec, place: string, adapt: Adapt): BodySpec {
  if (body.kind === 'per-layer-input' || body.kind === 'laurel') return body;
  return mapLeaves<BodySpec, SameLeaves>(body, {
    linear: (linear, path) =>
      linear.members === undefined
        ? adapt(linear, [place, kindOf(body), ...path].join('.'), expertAt(body, path))
        : linear,
    norm: (norm) => norm,
    vector: (vector) => vector,
    table: (table) => table,
  }) as BodySpec;
}

/** Where heads are sorted differently, matrices of the same role are not the same. */
function kindOf(body: BodySpec): string {
  return body.kind === 'gated-delta-net' ? `${body.kind}, ${body.sharing}` : body.kind;
}

function expertAt(body: BodySpec, [list, index]: readonly string[]): ExpertPlace | undefined {
  if (body.kind !== 'moe' || list !== 'experts') return undefined;
  return { index: Number(index), count: body.experts.length };
}
