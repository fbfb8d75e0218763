// Runs the vision tower over the pictures of a prompt.

import type { Backend, ImageFeatures, ImageRun } from '../compute/backend.ts';
import type { SequenceImages } from '../compute/batch-images.ts';
import { joinedFloats } from '../compute/join-arrays.ts';
import { invalid } from './generation-error.ts';
import type { ImagePrompt } from './image-prompt.ts';

/** Undefined where the prompt has no picture. */
export async function sequenceImages(
  backend: Pick<Backend, 'beginImage'>,
  { images, places, rotaryPositions, prefixEnd }: ImagePrompt,
): Promise<SequenceImages | undefined> {
  if (images.length === 0) return undefined;
  if (backend.beginImage === undefined) throw invalid('messages', 'the model does not read images');
  const features: ImageFeatures[] = [];
  for (const image of images) features.push(await finished(backend.beginImage(image)));
  const layers = Math.max(...features.map(({ deepstack }) => deepstack.length));
  return {
    places,
    embeddings: joinedFloats(features.map(({ embeddings }) => embeddings)),
    deepstack: Array.from({ length: layers }, (_, layer) =>
      joinedFloats(features.map(({ deepstack }) => deepstack[layer] ?? new Float32Array())),
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
