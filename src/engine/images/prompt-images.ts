// The images of a request, and what makes them unusable.

import type { TileSize } from '../../model/vision/preprocessing.ts';
import type { ImageInput } from '../../model/vision/vision-spec.ts';
import type { BothWays } from '../scheduler/shown-images.ts';

/** A picture of a prompt. */
export interface PromptImage {
  /** A hash of its bytes and of how it is prepared: what has the same key has the same features. */
  readonly key: string;
  readonly input: ImageInput;
  /** Positions of the tokens that stand for its features, ascending. */
  readonly places: Int32Array;
}

/** Pictures of a prompt, in its order. */
export interface PromptImages {
  readonly images: readonly PromptImage[];
  /** Time, row and column of each token of the prompt, where the model rotates by them. */
  readonly rotaryPositions?: Int32Array;
}

/** A picture as it came: whoever computes prepares it. */
export interface PromptPicture {
  readonly key: string;
  readonly places: Int32Array;
  readonly file: Uint8Array;
  /** SHA-256 of the file, in hex. */
  readonly hash: string;
  /** Once it is turned as its header says. */
  readonly size: TileSize;
  readonly detail: 'low' | 'high' | 'auto';
  /** What the client calls it. */
  readonly where: string;
}

export interface PromptPictures extends Pick<PromptImages, 'rotaryPositions'> {
  readonly images: readonly PromptPicture[];
}

/** What the engine knows of a model's vision tower. */
export interface VisionLimits {
  /** Values of a feature. */
  readonly hiddenSize: number;
  /** Layers of the text model to which further features are added. */
  readonly deepstackLayers: number;
  readonly bothWays?: BothWays | undefined;
}

export function featureBytes({ hiddenSize, deepstackLayers }: VisionLimits): number {
  return hiddenSize * (1 + deepstackLayers) * Float32Array.BYTES_PER_ELEMENT;
}

/** What is wrong with them, if anything is. */
export function imagesProblem(
  { images, rotaryPositions }: PromptImages,
  promptLength: number,
): string | undefined {
  let next = 0;
  for (const [index, { places, input, key }] of images.entries()) {
    const name = `image ${index + 1}`;
    if (key === '') return `${name} has no key`;
    if (places.length === 0) return `${name} stands nowhere in the prompt`;
    for (const place of places) {
      if (place < next) return `${name} has place ${place}, before ${next}, where it may begin or go on`;
      if (place >= promptLength) return `${name} has place ${place} in a prompt of ${promptLength} tokens`;
      next = place + 1;
    }
    if (input.views.length === 0) return `${name} has no view`;
    const wrong = input.views.find(({ width, height, rgb }) => !(rgb.length === 3 * width * height));
    if (wrong) return `${name} has ${wrong.rgb.length} bytes for ${wrong.width} × ${wrong.height} pixels`;
  }
  if (rotaryPositions === undefined || rotaryPositions.length === 3 * promptLength) return undefined;
  return `${rotaryPositions.length} rotary positions are not three for each of ${promptLength} tokens`;
}
