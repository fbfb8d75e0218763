// Prompts with images for the backend of hashes: what goes into their rows, and what the answer is without an engine.

import type { ImageFeatures, ImageRun } from '../../src/compute/backend.ts';
import type { PromptImages } from '../../src/engine/request.ts';
import type { BothWays } from '../../src/engine/scheduler/shown-images.ts';
import type { ImageInput } from '../../src/model/vision/vision-spec.ts';
import { answerAlone, chain, type HashVision, turned } from './hash-backend.ts';

export const HIDDEN = 2;
export const vision = { hiddenSize: HIDDEN, deepstackLayers: 1 };
/** All images have it as their placeholder. */
export const PLACEHOLDER = 7;
/** Work of a feature, and of a piece. */
const FEATURE_WORK = 100;
export const PIECE_WORK = 200;

/** A text, or the seed of an image. */
export type Part = { readonly text: readonly number[] } | { readonly image: number };

export interface SeenPrompt {
  readonly tokens: readonly number[];
  readonly images: PromptImages;
  /** Where rows see what comes after them: the end of what they see. */
  readonly spans: readonly { readonly first: number; readonly end: number }[];
}

/** How many features an image has; some are larger than a block, some than a step. */
export function featureCount(image: number): number {
  return [1, 4, 33, 70, 130][image % 5] as number;
}

export type Fault = 'throws' | 'poisoned' | 'miscounted';

export function faultOf(image: number): Fault | undefined {
  return ({ 90: 'throws', 91: 'poisoned', 92: 'miscounted' } as const)[image];
}

/** `threeParts`: time, row and column; images take fewer positions than they have tokens. */
export function seenPrompt(parts: readonly Part[], bothWays?: BothWays, threeParts = false): SeenPrompt {
  const tokens: number[] = [];
  const rotary: number[] = [];
  const spans: { first: number; end: number }[] = [];
  const images: { key: string; input: ImageInput; places: Int32Array }[] = [];
  let position = 0;
  for (const part of parts) {
    if ('text' in part) {
      for (const token of part.text) {
        tokens.push(token);
        rotary.push(position, position, position);
        position += 1;
      }
      continue;
    }
    const first = tokens.length;
    const count = featureCount(part.image);
    images.push({
      key: `image ${part.image}`,
      input: inputOf(part.image),
      places: Int32Array.from({ length: count }, (_, index) => first + index),
    });
    for (let index = 0; index < count; index++) {
      tokens.push(PLACEHOLDER);
      rotary.push(position, position + Math.floor(index / 8), position + (index % 8));
    }
    position += Math.max(8, Math.ceil(count / 8));
    const last = spans.at(-1);
    if (last?.end === first) last.end = tokens.length;
    else spans.push({ first, end: tokens.length });
  }
  return {
    tokens,
    images: { images, ...(threeParts ? { rotaryPositions: Int32Array.from(rotary) } : {}) },
    spans: { images: spans, prompts: [{ first: 0, end: tokens.length }], none: [] }[bothWays ?? 'none'],
  };
}

function inputOf(image: number): ImageInput {
  const rgb = new Uint8Array(3);
  rgb[0] = image;
  return {
    views: [{ width: 1, height: 1, rgb }],
    tiles: { rows: 1, columns: 1, picture: { width: 1, height: 1 } },
  };
}

function features(image: number): ImageFeatures {
  const count = featureCount(image) + Number(faultOf(image) === 'miscounted');
  const layer = (shift: number) =>
    Float32Array.from({ length: HIDDEN * count }, (_, at) => 1000 * shift + 100 * image + at);
  const embeddings = layer(1);
  if (faultOf(image) === 'poisoned') embeddings[embeddings.length - 1] = Number.NaN;
  return { embeddings, deepstack: [layer(2)] };
}

/** What the prompt is answered alone. */
export function seenAnswer(
  { tokens, images: { images, rotaryPositions }, spans }: SeenPrompt,
  choice: number,
  newTokens: number,
): { readonly tokens: readonly number[]; readonly failed: boolean } {
  const inputs = [...tokens];
  for (const { input, places } of images) {
    const { embeddings, deepstack } = features(
      (input.views[0] as ImageInput['views'][number]).rgb[0] as number,
    );
    for (const [index, place] of places.entries()) {
      const values = [embeddings, ...deepstack].flatMap((layer) => [
        ...layer.slice(index * HIDDEN, (index + 1) * HIDDEN),
      ]);
      inputs[place] = values.reduce(chain, 0);
    }
  }
  const turn = (input: number, at: number) => {
    if (rotaryPositions === undefined) return input;
    const known = 3 * tokens.length;
    const next = (rotaryPositions[known - 1] as number) + 1 + at - tokens.length;
    const axes = at < tokens.length ? rotaryPositions.slice(3 * at, 3 * at + 3) : [next, next, next];
    return turned(input, at, axes);
  };
  const rotated = inputs.map(turn);
  const ends = new Map(
    spans.flatMap(({ first, end }) =>
      Array.from({ length: end - first }, (_, at) => [first + at, end] as const),
    ),
  );
  let row = 1;
  for (const at of rotated.keys()) row = rotated.slice(at, ends.get(at) ?? at + 1).reduce(chain, row);
  return answerAlone(tokens, choice, newTokens, false, row, (token, index) =>
    turn(token, tokens.length + index),
  );
}

/** A tower in pieces, with what they cost. */
export class HashTower implements HashVision {
  readonly hiddenSize = HIDDEN;
  readonly bothWays: boolean;
  /** Images begun. */
  begun = 0;
  /** Runs that hold memory. */
  open = 0;
  readonly #onPiece: () => void;

  constructor(bothWays: boolean, onPiece: () => void = () => {}) {
    this.bothWays = bothWays;
    this.#onPiece = onPiece;
  }

  readonly beginImage = ({ views }: ImageInput): ImageRun => {
    const image = (views[0] as ImageInput['views'][number]).rgb[0] as number;
    this.begun += 1;
    this.open += 1;
    let left = FEATURE_WORK * featureCount(image);
    let closed = false;
    const onPiece = this.#onPiece;
    const close = () => {
      if (closed) throw new Error(`image ${image} is closed twice`);
      closed = true;
      this.open -= 1;
    };
    return {
      get left() {
        return left;
      },
      get features() {
        return left === 0 ? features(image) : undefined;
      },
      async advance(work) {
        const aim = left - work;
        do {
          await new Promise((resolve) => setImmediate(resolve));
          if (closed) throw new Error(`image ${image} is computed after it is closed`);
          if (faultOf(image) === 'throws') throw new Error('the tower has collapsed');
          left = Math.max(0, left - PIECE_WORK);
          onPiece();
        } while (left > Math.max(0, aim));
      },
      close,
    };
  };
}
