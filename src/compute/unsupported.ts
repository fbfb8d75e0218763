// What a backend cannot compute, said before anything is loaded.

import type { BodySpec, ModelSpec } from '../model/spec.ts';
import { attentionsOf, bodiesOf } from '../model/spec-walk.ts';

/** What some models have and some backends do not know. */
export type Feature =
  | Exclude<BodySpec['kind'], 'attention' | 'feed-forward' | 'experts'>
  | 'streams'
  | 'chunks'
  | 'cutoff'
  | 'each-norm'
  | 'stream-scale';

export function featuresOf(spec: ModelSpec): ReadonlySet<Feature> {
  const features = new Set<Feature>();
  const branches = spec.layers.flatMap((layer) => layer.branches);
  if (branches.some(({ streamScale }) => streamScale !== undefined)) features.add('stream-scale');
  if (spec.streams !== undefined) features.add('streams');
  for (const body of bodiesOf(spec)) {
    if (body.kind === 'feed-forward' && body.gateCutoff !== undefined) features.add('cutoff');
    if (body.kind !== 'attention' && body.kind !== 'feed-forward' && body.kind !== 'experts')
      features.add(body.kind);
  }
  for (const { chunk, queryNorm, stored } of attentionsOf(spec)) {
    if (chunk !== undefined) features.add('chunks');
    if (queryNorm?.over === 'each' || stored?.keyNorm?.over === 'each') features.add('each-norm');
  }
  return features;
}

/** Throws where the spec has what the backend lacks. */
export function requireFeatures(spec: ModelSpec, backend: string, lacks: readonly Feature[]): void {
  const missing = [...featuresOf(spec)].filter((feature) => lacks.includes(feature));
  if (missing.length === 0) return;
  throw new Error(
    `the ${backend} backend does not compute ${missing.join(', ')} yet, which ${spec.architecture} models have; use another backend`,
  );
}
