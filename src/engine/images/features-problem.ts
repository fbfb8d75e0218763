// What is wrong with what a vision tower gave, if anything is.

import type { ImageFeatures } from '../../compute/backend.ts';
import type { VisionLimits } from './prompt-images.ts';

export interface ImageError {
  readonly code: 'invalid' | 'numeric-error' | 'engine-failed';
  readonly message: string;
}

export function featuresProblem(
  { embeddings, deepstack }: ImageFeatures,
  { hiddenSize, deepstackLayers }: VisionLimits,
): ImageError | undefined {
  const all = [embeddings, ...deepstack];
  const isWhole = embeddings.length > 0 && embeddings.length % hiddenSize === 0;
  if (
    !isWhole ||
    deepstack.length !== deepstackLayers ||
    all.some(({ length }) => length !== embeddings.length)
  ) {
    return { code: 'engine-failed', message: 'the vision tower gave features of another size' };
  }
  if (all.every(areFinite)) return undefined;
  return { code: 'numeric-error', message: 'the vision tower computed something that is not a number' };
}

export function countProblem(
  { embeddings }: ImageFeatures,
  places: number,
  hiddenSize: number,
): ImageError | undefined {
  const count = embeddings.length / hiddenSize;
  if (count === places) return undefined;
  return { code: 'invalid', message: `${places} tokens stand for ${count} features` };
}

function areFinite(values: Float32Array): boolean {
  for (let at = 0; at < values.length; at++) if (!Number.isFinite(values[at])) return false;
  return true;
}
