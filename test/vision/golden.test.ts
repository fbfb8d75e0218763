// Models that see, held to transformers: token ids, pixels, features, logits at every position, greedy tokens.

import { afterAll, describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
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

interface Files {
  readonly family: string;
  /** Of the family's folder: a GGUF, with its projector beside it; absent: the folder. */
  readonly gguf?: true;
  /** The only cases that these files can give. */
  readonly only?: readonly string[];
  /** The converter has made another text model of it: only pixels and features are the same. */
  readonly otherText?: true;
  /** Default 2e-4. */
  readonly tolerance?: number;
}

const files: readonly Files[] = [
  { family: 'qwen2_5_vl' },
  // Its projector file does not say how large windows are: 112 pixels in all that are published, but 56 here.
  { family: 'qwen2_5_vl', gguf: true, only: ['one pixel', 'text only'] },
  { family: 'qwen3_vl' },
  { family: 'qwen3_vl', gguf: true },
  { family: 'qwen3_vl_moe' },
  { family: 'qwen3_vl_moe', gguf: true },
  { family: 'qwen3_5' },
  { family: 'qwen3_5', gguf: true },
  { family: 'gemma3' },
  // With a tokenizer of another kind, and without a word on which of its three layers see all tokens; its projection has 16 bits.
  { family: 'gemma3', gguf: true, otherText: true, tolerance: 2e-3 },
  { family: 'smolvlm' },
  { family: 'smolvlm', gguf: true },
  { family: 'idefics3' },
  { family: 'llava' },
  { family: 'pixtral' },
  { family: 'pixtral', gguf: true },
  { family: 'mistral3' },
  { family: 'mistral3', gguf: true },
  { family: 'internvl' },
  { family: 'lfm2_vl' },
  { family: 'lfm2_vl', gguf: true },
  { family: 'glm4v' },
  { family: 'glm4v', gguf: true },
  { family: 'gemma4' },
  { family: 'gemma4', gguf: true },
  { family: 'llama4' },
  { family: 'llava_onevision' },
  { family: 'paligemma' },
];

const only = process.env.FAMILIES?.split(',');

/** Several pictures as they are not prepared together: each as if it were alone. */
const otherwise = 'two images, each tiled';

/** Text before, between and after; the others show more sizes. */
const quick = { folder: ['two images'], gguf: ['tiny'] };

describe.skipIf(!hasTestdata).each(files.filter(({ family }) => only === undefined || only.includes(family)))(
  '$family, GGUF: $gguf',
  ({ family, gguf, only: possible, otherText, tolerance = 2e-4 }) => {
    const wanted = possible ?? (thorough ? undefined : gguf ? quick.gguf : quick.folder);
    const chosen = (hasTestdata ? goldenCases(family) : []).filter(
      ({ name, referenceFails }) =>
        (wanted?.includes(name) ?? name !== otherwise) && referenceFails === undefined,
    );
    let opened: Promise<Seeing> | undefined;
    const open = () => {
      opened ??= openSeeing(createReferenceBackend, family, gguf ? 'model.gguf' : '');
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
        expect(distance(every(211, images.embeddings), every211th)).toBeLessThan(tolerance);
        for (const [layer, { every211th }] of (golden.deepstackFeatures ?? []).entries()) {
          expect(distance(every(211, images.deepstack[layer] ?? []), every211th)).toBeLessThan(tolerance);
        }
      }
      if (otherText) return;
      const { rows, greedy } = await answer(seeing, prompt, images, thorough ? golden.greedy.length : 4);
      expect(distance(every(7, rows.at(-1) ?? []), golden.lastLogits.every7th)).toBeLessThan(tolerance);
      expect(clearBest(golden, rows)).toEqual(clearBest(golden));
      const close = golden.greedyMargins.findIndex((margin) => margin < 2 * tolerance);
      const sure = close < 0 ? greedy.length : Math.min(close, greedy.length);
      expect(greedy.slice(0, sure)).toEqual(golden.greedy.slice(0, sure));
    });
  },
);

/** The best next token after each token of text, where the reference is clear; its own, without rows. */
function clearBest(
  { textPositions, argmaxAtTextPositions, closePositions }: GoldenCase,
  rows?: readonly Float32Array[],
): [number, number | undefined][] {
  return [...textPositions.entries()]
    .filter(([, position]) => !closePositions.includes(position))
    .map(([index, position]) => {
      const own = rows?.[position];
      return [position, own === undefined ? argmaxAtTextPositions[index] : largest(own)];
    });
}
