// Runs the vision tower over the pictures of a prompt.

import type { Backend, ImageFeatures } from '../compute/backend.ts';
import type { SequenceImages } from '../compute/batch-images.ts';
import { invalid } from './generation-error.ts';
import type { ImagePrompt } from './image-prompt.ts';

/** Undefined where the prompt has no picture. */
export async function sequenceImages(
  { name, encodeImage }: Pick<Backend, 'name' | 'encodeImage'>,
  { images, places, rotaryPositions }: ImagePrompt,
): Promise<SequenceImages | undefined> {
  if (images.length === 0) return undefined;
  if (encodeImage === undefined) throw invalid('messages', `the ${name} backend does not read images`);
  const features: ImageFeatures[] = [];
  for (const image of images) features.push(await encodeImage(image));
  const layers = Math.max(...features.map(({ deepstack }) => deepstack.length));
  return {
    places,
    embeddings: joined(features.map(({ embeddings }) => embeddings)),
    deepstack: Array.from({ length: layers }, (_, layer) =>
      joined(features.map(({ deepstack }) => deepstack[layer] ?? new Float32Array())),
    ),
    ...(rotaryPositions === undefined ? {} : { rotaryPositions }),
  };
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
