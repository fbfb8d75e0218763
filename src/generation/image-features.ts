// Runs the vision tower over the pictures of a prompt.

import type { Backend, ImageFeatures, ImageRun } from '../compute/backend.ts';
import type { SequenceImages } from '../compute/batch-images.ts';
import { invalid } from './generation-error.ts';
import type { ImagePrompt } from './image-prompt.ts';

/** Undefined where the prompt has no picture. */
export async function sequenceImages(
  backend: Pick<Backend, 'name' | 'beginImage'>,
  { images, places, rotaryPositions, prefixEnd }: ImagePrompt,
): Promise<SequenceImages | undefined> {
  if (images.length === 0) return undefined;
  const { name } = backend;
  if (backend.beginImage === undefined) {
    throw invalid('messages', `the ${name} backend does not read images`);
  }
  const features: ImageFeatures[] = [];
  for (const image of images) features.push(await finished(backend.beginImage(image)));
  const layers = Math.max(...features.map(({ deepstack }) => deepstack.length));
  return {
    places,
    embeddings: joined(features.map(({ embeddings }) => embeddings)),
    deepstack: Array.from({ length: layers }, (_, layer) =>
      joined(features.map(({ deepstack }) => deepstack[layer] ?? new Float32Array())),
    ),
    ...(prefixEnd === undefined ? {} : { prefixEnd }),
    ...(rotaryPositions === undefined ? {} : { rotaryPositions }),
  };
}

async function finished(run: ImageRun): Promise<ImageFeatures> {
  while (run.features === undefined) await run.advance(Number.POSITIVE_INFINITY);
  const { features } = run;
  run.close();
  return features;
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
