// The linear maps of a model that adapters may add to, each with a place that is the same whatever its tensors are called.

import { mapLeaves } from './leaves.ts';
import type { BodySpec, LinearSpec, ModelSpec, NormSpec, TableSpec, VectorSpec } from './spec.ts';

export interface ExpertPlace {
  readonly index: number;
  readonly count: number;
}

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

function mapBody(body: BodySpec, place: string, adapt: Adapt): BodySpec {
  // With the other words of a body: where heads are sorted differently, matrices of the same role are not the same.
  const words = Object.values(body).filter((value) => typeof value === 'string');
  return mapLeaves<BodySpec, SameLeaves>(body, {
    linear: (linear, path) =>
      linear.adaptable === false
        ? linear
        : adapt(linear, [place, words.join(', '), ...path].join('.'), expertAt(body, path)),
    norm: (norm) => norm,
    vector: (vector) => vector,
    table: (table) => table,
  }) as BodySpec;
}

function expertAt(body: BodySpec, [list, index]: readonly string[]): ExpertPlace | undefined {
  if (body.kind !== 'moe' || list !== 'experts') return undefined;
  return { index: Number(index), count: body.experts.length };
}
