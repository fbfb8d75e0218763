// Models that see, held to transformers: token ids, pixels, features, logits at every position, greedy tokens.

import { afterAll, describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';
import {
  answer,
  distance,
  every,
  type GoldenCase,
  goldenCases,
  laidOut,
  largest,
  openSeeing,
  readCase,
  type Seeing,
  seen,
} from './golden-case.ts';
import { goldenFiles } from './golden-files.ts';

const only = process.env.FAMILIES?.split(',');

/** Several pictures as they are not prepared together: each as if it were alone. */
const otherwise = 'two images, each tiled';

/** Text before, between and after; the others show more sizes. */
const quick = { folder: ['two images'], gguf: ['tiny'] };

interface Measure {
  readonly name: 'reference' | 'cpu';
  readonly create: CreateBackend;
  expectLogits(own: readonly number[], golden: readonly number[], tolerance: number): void;
  /** What two logits must be apart for their order to be sure. */
  margin(tolerance: number): number;
}

const expectNear = (own: readonly number[], golden: readonly number[], tolerance: number) =>
  expect(distance(own, golden)).toBeLessThan(tolerance);

const expectLike = (likeness: number) => (own: readonly number[], golden: readonly number[]) => {
  expect(own).toHaveLength(golden.length);
  expect(cosine(Float32Array.from(own), Float32Array.from(golden))).toBeGreaterThanOrEqual(likeness);
};

const measures: readonly Measure[] = [
  {
    name: 'reference',
    create: createReferenceBackend,
    expectLogits: expectNear,
    margin: (tolerance) => 2 * tolerance,
  },
  {
    name: 'cpu',
    create: createOnCpu,
    expectLogits: expectLike(0.999),
    // Keys and values are halves.
    margin: () => 0.02,
  },
];

/** A file's reader does not depend on the backend: the faster one shows that a GGUF is as good as the folder. */
function isRun({ gguf }: (typeof goldenFiles)[number], { name }: Measure): boolean {
  if (name === 'cpu') return hasAddon;
  return thorough || !hasAddon || gguf === undefined;
}

const all = goldenFiles
  .filter(({ family }) => only === undefined || only.includes(family))
  .flatMap((one) =>
    measures.filter((measure) => isRun(one, measure)).map((measure) => ({ ...one, measure })),
  );

describe.skipIf(!hasTestdata).each(all)(
  '$family, GGUF: $gguf, on $measure.name (the addon where it is built)',
  ({ family, gguf, only: possible, otherText, tolerance = 2e-4, measure }) => {
    const wanted = possible ?? (thorough ? undefined : gguf ? quick.gguf : quick.folder);
    const chosen = (hasTestdata ? goldenCases(family) : []).filter(
      ({ name, referenceFails }) =>
        (wanted?.includes(name) ?? name !== otherwise) && referenceFails === undefined,
    );
    let opened: Promise<Seeing> | undefined;
    const open = () => {
      opened ??= openSeeing(measure.create, family, gguf ? 'model.gguf' : '');
      return opened;
    };
    afterAll(async () => (await opened)?.backend.close());

    it.each(chosen.map((one) => [one.name, one] as const))('%s', async (_, golden) => {
      const seeing = await open();
      const prompt = await readCase(seeing, golden);
      if (!otherText) expect([...prompt.ids]).toEqual(golden.inputIds);
      const { pixelValues } = golden.preprocessing;
      if (pixelValues) {
        const values = every(997, laidOut(seeing, prompt, pixelValues.shape));
        expect(distance(values, pixelValues.every997th)).toBeLessThan(1e-6);
      }
      const images = await seen(seeing, prompt);
      expect(images === undefined).toBe(golden.visionFeatures === undefined);
      if (golden.visionFeatures && images) {
        const { every211th } = golden.visionFeatures;
        expectNear(every(211, images.embeddings), every211th, tolerance);
        for (const [layer, { every211th }] of (golden.deepstackFeatures ?? []).entries()) {
          expectNear(every(211, images.deepstack[layer] ?? []), every211th, tolerance);
        }
      }
      if (otherText) return;
      const { rows, greedy } = await answer(seeing, prompt, images, thorough ? golden.greedy.length : 4);
      measure.expectLogits(every(7, rows.at(-1) ?? []), golden.lastLogits.every7th, tolerance);
      const margin = measure.margin(tolerance);
      const clear = clearPositions(golden, rows, margin);
      expect(clear.map((position) => largest(rows[position] as Float32Array))).toEqual(
        clear.map((position) => golden.argmaxAtTextPositions[golden.textPositions.indexOf(position)]),
      );
      const close = golden.greedyMargins.findIndex((one) => one < margin);
      const sure = close < 0 ? greedy.length : Math.min(close, greedy.length);
      expect(greedy.slice(0, sure)).toEqual(golden.greedy.slice(0, sure));
    });
  },
);

/** Positions of text after which one token is clearly the best, to the reference and to the backend. */
function clearPositions(
  { textPositions, closePositions }: GoldenCase,
  rows: readonly Float32Array[],
  margin: number,
): readonly number[] {
  return textPositions.filter((position) => {
    if (closePositions.includes(position)) return false;
    const [best = 0, second = 0] = [...(rows[position] ?? [])].sort((one, other) => other - one);
    return best - second >= margin;
  });
}
