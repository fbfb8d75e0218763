// Reference results of models that see, and what a test needs to hold a backend to them.

import { readFileSync } from 'node:fs';
import type { Backend, CreateBackend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import type { SequenceImages } from '../../src/compute/batch-images.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import type { ChatMessage } from '../../src/generation/chat-prompt.ts';
import { sequenceImages } from '../../src/generation/image-features.ts';
import { type ImagePrompt, imagePrompt } from '../../src/generation/image-prompt.ts';
import { viewValues } from '../../src/model/vision/view-values.ts';
import type { VisionSpec } from '../../src/model/vision/vision-spec.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { testdata } from '../support/testdata.ts';

interface Sampled {
  readonly shape: readonly number[];
  readonly every211th: readonly number[];
}

export interface GoldenCase {
  readonly name: string;
  readonly messages: readonly ChatMessage[];
  readonly inputIds: readonly number[];
  readonly preprocessing: {
    readonly pixelValues?: { readonly shape: readonly number[]; readonly every997th: readonly number[] };
  };
  readonly visionFeatures?: Sampled;
  readonly deepstackFeatures?: readonly Sampled[];
  readonly positionIds?: readonly (readonly number[])[];
  readonly textPositions: readonly number[];
  readonly argmaxAtTextPositions: readonly number[];
  readonly closePositions: readonly number[];
  readonly lastLogits: { readonly every7th: readonly number[] };
  readonly greedy: readonly number[];
  readonly greedyMargins: readonly number[];
  readonly referenceFails?: unknown;
}

export function goldenCases(family: string): readonly GoldenCase[] {
  return JSON.parse(readFileSync(testdata('vision', family, 'golden-vision.json'), 'utf8')).cases;
}

export async function openSeeing(create: CreateBackend, ...path: readonly string[]) {
  const model = openLocalModel(testdata('vision', ...path.filter((part) => part !== '')), { images: true });
  const backend = await create(model.spec, model.weights, { blockCount: 32, stateSlots: 2 });
  model.close();
  return { model: { ...model, name: path.join('/') }, backend };
}

export type Seeing = Awaited<ReturnType<typeof openSeeing>>;

export function readCase({ model }: Seeing, { messages }: GoldenCase): Promise<ImagePrompt> {
  return imagePrompt(model, messages, { load: async (url) => readFileSync(testdata('vision', url)) });
}

export async function seen({ backend }: Seeing, prompt: ImagePrompt): Promise<SequenceImages | undefined> {
  return sequenceImages(backend, prompt);
}

/** Logits at all positions, then greedily N more tokens, each step computed alone. */
export async function answer(
  { model, backend }: Seeing,
  { ids }: ImagePrompt,
  images: SequenceImages | undefined,
  count: number,
) {
  const { vocabSize } = model.spec;
  const { logits: all } = await step(backend, [...ids], 0, images, 'all');
  const rows = Array.from({ length: ids.length }, (_, row) =>
    all.slice(row * vocabSize, (row + 1) * vocabSize),
  );
  const greedy: number[] = [];
  let last = rows.at(-1) as Float32Array;
  for (let at = 0; at < count; at++) {
    greedy.push(largest(last));
    const { logits } = await step(backend, [greedy[at] as number], ids.length + at, images, 'last');
    last = logits.slice();
  }
  return { rows, greedy };
}

function step(
  backend: Backend,
  tokens: readonly number[],
  start: number,
  images: SequenceImages | undefined,
  wantLogits: 'all' | 'last',
) {
  const blocks = Array.from({ length: 32 }, (_, block) => block);
  const sequence = { tokens, start, blocks, wantLogits, images } as const;
  const state = backend.stateSlots === undefined ? {} : { state: ownSlot(sequence, 0) };
  return backend.step(buildBatch([{ ...sequence, ...state }]));
}

export function largest(logits: Float32Array): number {
  return logits.reduce((best, logit, id) => (logit > (logits[best] as number) ? id : best), 0);
}

export function every(step: number, values: ArrayLike<number>): number[] {
  return Array.from({ length: Math.ceil(values.length / step) }, (_, at) => values[at * step] as number);
}

/** The largest difference; Infinity where they differ in length. */
export function distance(one: ArrayLike<number>, other: ArrayLike<number>): number {
  if (one.length !== other.length) return Number.POSITIVE_INFINITY;
  return Array.from(one).reduce(
    (most, value, at) => Math.max(most, Math.abs(value - (other[at] as number))),
    0,
  );
}

/** As the reference's processors lay out the views of all images, padded where they are. */
export function laidOut(
  { model }: Pick<Seeing, 'model'>,
  { images }: ImagePrompt,
  shape: readonly number[],
): number[] {
  const { preprocessing } = model.spec.vision as VisionSpec;
  const views = images.flatMap((image) =>
    image.views.map((view): View => ({ ...view, values: viewValues(view, preprocessing) })),
  );
  const laid = views.flatMap((view) => {
    if (shape.length === 2) return inMergeOrder(view, Math.sqrt((shape[1] as number) / 6));
    if (shape.length === 3) return inPatches(view, Math.sqrt((shape[2] as number) / 3));
    return padded(view, shape.at(-2) as number, shape.at(-1) as number);
  });
  if (shape.length !== 3) return laid;
  return paddedPatches(views, laid, (shape[1] as number) * (shape[2] as number));
}

/** Patches of each view, and zeros up to as many as one may have. */
function paddedPatches(views: readonly View[], laid: readonly number[], size: number): number[] {
  let end = 0;
  return views.flatMap(({ values }) => {
    end += values.length;
    return [...laid.slice(end - values.length, end), ...Array(size - values.length).fill(0)];
  });
}

interface View {
  readonly width: number;
  readonly height: number;
  /** Channel by channel, row by row. */
  readonly values: Float32Array;
}

function pixel({ width, height, values }: View, channel: number, row: number, column: number): number {
  return row < height && column < width ? (values[(channel * height + row) * width + column] as number) : 0;
}

function padded(view: View, height: number, width: number): number[] {
  return Array.from({ length: 3 * height * width }, (_, at) =>
    pixel(view, Math.floor(at / (height * width)), Math.floor(at / width) % height, at % width),
  );
}

/** Squares of two by two patches, each by channel, both frames, row and column. */
function inMergeOrder(view: View, size: number): number[] {
  const laid: number[] = [];
  for (let top = 0; top < view.height; top += 2 * size) {
    for (let left = 0; left < view.width; left += 2 * size) {
      for (let patch = 0; patch < 4; patch++) {
        const [y, x] = [top + (patch >> 1) * size, left + (patch & 1) * size];
        for (let at = 0; at < 6 * size * size; at++) {
          const inFrame = at % (size * size);
          laid.push(
            pixel(
              view,
              Math.floor(at / (2 * size * size)),
              y + Math.floor(inFrame / size),
              x + (inFrame % size),
            ),
          );
        }
      }
    }
  }
  return laid;
}

/** Each by row, column and channel. */
function inPatches(view: View, size: number): number[] {
  const laid: number[] = [];
  for (let top = 0; top < view.height; top += size) {
    for (let left = 0; left < view.width; left += size) {
      for (let at = 0; at < 3 * size * size; at++) {
        const inPatch = Math.floor(at / 3);
        laid.push(pixel(view, at % 3, top + Math.floor(inPatch / size), left + (inPatch % size)));
      }
    }
  }
  return laid;
}
