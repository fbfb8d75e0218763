// Backends that see: rows of images in batches, and features of pictures.

import { describe, expect, it } from 'vitest';
import type { Backend, ImageFeatures } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { imageSpans, type SequenceImages } from '../../src/compute/batch-images.ts';
import type { ImageInput } from '../../src/model/vision/vision-spec.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { blocksFor, cosine } from '../support/backend-properties.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { seeingModel, tiledImage } from '../support/seeing-model.ts';
import { randomTokens, type TinyModel } from '../support/tiny-model.ts';
import type { ContractModels, OpenBackend } from './backend-contract.ts';
import { onReference, withBackend } from './running.ts';

const models = [
  { name: 'each token sees those before it', bothWays: false, make: () => seeingModel() },
  {
    name: 'tokens of an image see each other, beyond a window',
    bothWays: true,
    make: () => seeingModel({ bothWays: true }),
  },
  {
    name: 'with inputs of layers, in 16 bits',
    bothWays: true,
    make: () => seeingModel({ bothWays: true, perLayerInputs: true, type: 'BF16' }),
  },
] as const;

interface Text {
  readonly tokens: readonly number[];
  readonly images?: SequenceImages;
}

export interface ImageOptions {
  /** A picture whose views are joined; smaller where kernels are simulated. */
  readonly pictureOf?: (seed: number) => ImageInput;
  /** Of towers. */
  readonly types?: readonly TensorType[];
}

export function imageContract(
  open: OpenBackend,
  {
    settings,
    pictureOf = tiledImage,
    types = ['F32', 'F16', 'Q8_0'],
  }: ImageOptions & Pick<ContractModels, 'settings'>,
): void {
  describe.each(models)('in a batch: $name', ({ make, bothWays }) => {
    const model = make();
    const texts = textsOf(model);

    it('give the logits of the reference backend', async () => {
      const expected = await withBackend(onReference, model, {}, (backend) => inPieces(backend, texts));
      const actual = await withBackend(open, model, {}, (backend) => inPieces(backend, texts));
      for (const [at, logits] of actual.entries()) {
        expect(cosine(logits, expected[at] as Float32Array)).toBeGreaterThan(0.99999);
      }
    });

    it('are the same bits alone and among texts, in any pieces', async () => {
      let expected: Float32Array[] | undefined;
      for (const [index, setting] of settings.entries()) {
        await withBackend(open, model, setting, async (backend) => {
          if (expected === undefined) {
            expected = [];
            for (const text of texts) expected.push(...(await inPieces(backend, [text])));
          }
          const random = seededRandom(index + 1);
          const cut = () => 1 + Math.floor(random() * 40);
          expect(await inPieces(backend, texts, { cut, bothWays })).toEqual(expected);
        });
      }
    });

    it('change what follows', async () => {
      const [text] = texts as [Text];
      const [seen, blind] = await withBackend(open, model, {}, async (backend) => [
        (await inPieces(backend, [text]))[0],
        (await inPieces(backend, [{ tokens: text.tokens }]))[0],
      ]);
      expect(cosine(seen as Float32Array, blind as Float32Array)).toBeLessThan(0.99);
    });
  });

  describe.each(types)('by a tower of %s', (type) => {
    const model = seeingModel({ type });
    const image = pictureOf(3);

    it('have the features of the reference backend', async () => {
      const expected = await withBackend(onReference, model, {}, (backend) => featuresOf(backend));
      const actual = await withBackend(open, model, {}, (backend) => featuresOf(backend));
      for (const [at, values] of layersOf(actual).entries()) {
        const own = layersOf(expected)[at] as Float32Array;
        expect(values).toHaveLength(own.length);
        expect(cosine(values, own)).toBeGreaterThan(type === 'Q8_0' ? 0.9995 : 0.999999);
      }
    });

    it('have the same bits in pieces of any size, whatever the settings', async () => {
      let expected: ImageFeatures | undefined;
      for (const setting of settings) {
        await withBackend(open, model, setting, async (backend) => {
          expected ??= await featuresOf(backend);
          expect(await featuresOf(backend, () => 1)).toEqual(expected);
          const random = seededRandom(1);
          expect(await featuresOf(backend, () => random() * 5e6)).toEqual(expected);
        });
      }
    });

    async function featuresOf(
      backend: Backend,
      piece = () => Number.POSITIVE_INFINITY,
    ): Promise<ImageFeatures> {
      const run = backend.beginImage?.(image);
      if (run === undefined) throw new Error('the backend does not see');
      for (let left = run.left; run.features === undefined; left = run.left) {
        expect(left).toBeGreaterThan(0);
        await run.advance(piece());
        expect(run.left).toBeLessThan(left);
      }
      expect(run.left).toBe(0);
      const { features } = run;
      run.close();
      return features;
    }
  });

  it('are computed between steps, and two pictures one beside the other', async () => {
    const model = seeingModel();
    await withBackend(open, model, {}, async (backend) => {
      const [text] = textsOf(model) as [Text];
      const [expected] = await inPieces(backend, [text]);
      const runs = [3, 4].map((seed) => backend.beginImage?.(pictureOf(seed)));
      while (runs.some((run) => run !== undefined && run.features === undefined)) {
        for (const run of runs) await run?.advance(2e6);
        expect(await inPieces(backend, [text])).toEqual([expected]);
      }
      const again = backend.beginImage?.(pictureOf(4));
      await again?.advance(Number.POSITIVE_INFINITY);
      expect(again?.features).toEqual(runs[1]?.features);
      for (const run of [...runs, again]) run?.close();
    });
  });
}

function layersOf({ embeddings, deepstack }: ImageFeatures): Float32Array[] {
  return [embeddings, ...deepstack];
}

/** Two with images, the first of them with two, and three without. */
function textsOf({ spec }: TinyModel): Text[] {
  return [
    textWith(spec, 90, [
      [5, 40],
      [50, 62],
    ]),
    { tokens: randomTokens(70, spec.vocabSize, 2) },
    textWith(spec, 45, [[0, 33]]),
    { tokens: randomTokens(3, spec.vocabSize, 4) },
    { tokens: randomTokens(41, spec.vocabSize, 5) },
  ];
}

function textWith(
  { vocabSize, hiddenSize }: TinyModel['spec'],
  count: number,
  spans: readonly (readonly [first: number, end: number])[],
): Text {
  const random = seededRandom(count);
  const values = (size: number) => Float32Array.from({ length: size }, () => 2 * random() - 1);
  const places = spans.flatMap(([first, end]) => Array.from({ length: end - first }, (_, at) => first + at));
  const size = places.length * hiddenSize;
  // Of an image in rows of four: its time stays, rows and columns are counted.
  const rotaryPositions = Array.from({ length: count }, (_, position) => {
    const span = spans.find(([first, end]) => position >= first && position < end);
    if (span === undefined) return [position, position, position];
    const at = position - span[0];
    return [span[0], span[0] + Math.floor(at / 4), span[0] + (at % 4)];
  });
  return {
    tokens: randomTokens(count, vocabSize, count),
    images: {
      places: Int32Array.from(places),
      embeddings: values(size),
      deepstack: [values(size), values(size)],
      rotaryPositions: Int32Array.from(rotaryPositions.flat()),
    },
  };
}

interface Cutting {
  /** Tokens of the next piece; an image whose tokens see each other is never cut. */
  readonly cut: () => number;
  readonly bothWays: boolean;
}

/** All together, each in one piece or in those that `cut` says; logits of every position. */
async function inPieces(
  backend: Backend,
  texts: readonly Text[],
  { cut, bothWays }: Cutting = { cut: () => Number.POSITIVE_INFINITY, bothWays: false },
): Promise<Float32Array[]> {
  let block = 0;
  const running = texts.map((text) => {
    const blocks = Array.from({ length: blocksFor(text.tokens.length) }, () => block++);
    return { ...text, blocks, done: 0, logits: [] as number[] };
  });
  for (;;) {
    const left = running.filter(({ done, tokens }) => done < tokens.length);
    if (left.length === 0) return running.map(({ logits }) => Float32Array.from(logits));
    const counts = left.map(({ tokens, done, images }) => {
      const end = Math.min(tokens.length, done + cut());
      const spans = bothWays && images !== undefined ? imageSpans(images.places) : [];
      return (spans.find((span) => span.first < end && span.end > end)?.end ?? end) - done;
    });
    const batch = left.map(
      ({ tokens, done, blocks, images }, at): BatchSequence => ({
        tokens: tokens.slice(done, done + (counts[at] as number)),
        start: done,
        blocks,
        wantLogits: 'all',
        images,
      }),
    );
    const { logits } = await backend.step(buildBatch(batch));
    const vocabSize = logits.length / counts.reduce((sum, count) => sum + count, 0);
    let row = 0;
    for (const [at, sequence] of left.entries()) {
      const count = counts[at] as number;
      sequence.logits.push(...logits.subarray(row * vocabSize, (row + count) * vocabSize));
      sequence.done += count;
      row += count;
    }
  }
}
