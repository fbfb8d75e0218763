// The images of a sequence's prompt: where they stand, what they are to the cache, and their features once they are computed.

import type { ImageFeatures } from '../../compute/backend.ts';
import { imageSpans, type SequenceImages } from '../../compute/batch-images.ts';
import { joinedFloats, joinedInts } from '../../compute/join-arrays.ts';
import { BlockImages, type PlacedImage } from '../cache/block-images.ts';

interface ShownPrompt {
  readonly images: readonly PlacedImage[];
  /** Time, row and column of each token of the prompt. */
  readonly rotaryPositions?: Int32Array;
}

interface Span {
  readonly first: number;
  readonly end: number;
}

/** Which tokens also see those after them: those that stand for one image, or all of a prompt with images, as in a prefix LM. */
export type BothWays = 'images' | 'prompts';

const none = { places: new Int32Array(), embeddings: new Float32Array(), deepstack: [] } as const;

export class ShownImages {
  readonly blocks: BlockImages;
  /** One for each image, from when the sequence is given to the scheduler on. */
  features: readonly ImageFeatures[] | undefined;
  readonly #images: readonly PlacedImage[];
  readonly #rotaryPositions: Int32Array | undefined;
  /** Tokens before it see each other. */
  readonly #prefixEnd: number;
  /** Tokens that are computed in one step, as they see each other. */
  readonly #whole: readonly Span[];

  constructor({ images, rotaryPositions }: ShownPrompt, prompt: Int32Array, bothWays?: BothWays) {
    this.#images = images;
    this.#rotaryPositions = rotaryPositions;
    this.#prefixEnd = bothWays === 'prompts' ? prompt.length : 0;
    this.blocks = new BlockImages(images, this.#prefixEnd > 0 ? prompt : undefined);
    if (bothWays === undefined) this.#whole = [];
    else if (bothWays === 'prompts') this.#whole = [{ first: 0, end: prompt.length }];
    else this.#whole = imageSpans(joinedInts(images.map(({ places }) => places)));
  }

  /** Whether tokens see each other of which one lies before a position and one after it. */
  isWithin(position: number): boolean {
    return this.#spanAround(position) !== undefined;
  }

  /** The next position after `position`, or itself, at which a step may end. */
  endAfter(position: number): number {
    return this.#spanAround(position)?.end ?? position;
  }

  /** The same before it. */
  endBefore(position: number): number {
    return this.#spanAround(position)?.first ?? position;
  }

  #spanAround(position: number): Span | undefined {
    return this.#whole.find(({ first, end }) => first < position && position < end);
  }

  /** What a step of rows `start … start + count - 1` must know; undefined where they are as those of a text. */
  ofRows(start: number, count: number): SequenceImages | undefined {
    const prompt = this.#ofPrompt(start);
    const parts = this.#images.flatMap(({ places }, index) => {
      const from = firstAtLeast(places, start);
      const to = firstAtLeast(places, start + count);
      if (from === to) return [];
      const features = this.features?.[index];
      if (features === undefined) throw new Error(`image ${index} is shown before it is computed`);
      return [partOf(features, places, from, to)];
    });
    const [only] = parts;
    if (only === undefined) return prompt && { ...none, ...prompt };
    if (parts.length === 1) return { ...only, ...prompt };
    const layers = Math.max(...parts.map(({ deepstack }) => deepstack.length));
    return {
      places: joinedInts(parts.map(({ places }) => places)),
      embeddings: joinedFloats(parts.map(({ embeddings }) => embeddings)),
      deepstack: Array.from({ length: layers }, (_, layer) =>
        joinedFloats(parts.map(({ deepstack, embeddings }) => deepstack[layer] ?? embeddings.map(() => 0))),
      ),
      ...prompt,
    };
  }

  #ofPrompt(start: number): Pick<SequenceImages, 'rotaryPositions' | 'prefixEnd'> | undefined {
    const prefixEnd = start < this.#prefixEnd ? this.#prefixEnd : undefined;
    if (this.#rotaryPositions === undefined && prefixEnd === undefined) return undefined;
    return {
      ...(this.#rotaryPositions && { rotaryPositions: this.#rotaryPositions }),
      ...(prefixEnd === undefined ? {} : { prefixEnd }),
    };
  }
}

function partOf(features: ImageFeatures, places: Int32Array, from: number, to: number): SequenceImages {
  const size = features.embeddings.length / places.length;
  const rows = (values: Float32Array) => values.subarray(from * size, to * size);
  return {
    places: places.subarray(from, to),
    embeddings: rows(features.embeddings),
    deepstack: features.deepstack.map(rows),
  };
}

/** How many of the places come before a position. */
function firstAtLeast(places: Int32Array, position: number): number {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((places[middle] as number) < position) low = middle + 1;
    else high = middle;
  }
  return low;
}
