// Models that see on the webgpu backend, held to transformers: features, the last logits, greedy tokens. Kernels take long to
// compile: every run has two families, whose towers and text models differ most; CHAIRLIFT_TESTS=all has all, and their files.

import { expect, it } from 'vitest';
import type { CreateBackend, ImageFeatures } from '../../src/compute/backend.ts';
import type { SequenceImages } from '../../src/compute/batch-images.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { sharedGpu, withBinding } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';
import {
  answer,
  every,
  type GoldenCase,
  goldenCases,
  openSeeing,
  readCase,
  type Seeing,
  seen,
} from '../vision/golden-case.ts';

interface Files {
  readonly family: string;
  /** Of the family's folder: a GGUF, with its projector beside it; absent: the folder. */
  readonly gguf?: true;
  /** The only cases that these files can give. */
  readonly only?: readonly string[];
}

/** Rotary embeddings of three axes, outputs for several layers; images whose tokens see each other. */
const quick = ['qwen3_vl', 'gemma3'];

const files: readonly Files[] = [
  ...[
    ...[
      'qwen2_5_vl',
      'qwen3_vl',
      'qwen3_vl_moe',
      'qwen3_5',
      'gemma3',
      'smolvlm',
      'idefics3',
      'llava',
      'pixtral',
    ],
    ...['mistral3', 'internvl', 'lfm2_vl', 'glm4v', 'gemma4', 'llama4', 'llava_onevision', 'paligemma'],
  ].map((family) => ({ family })),
  // Its projector file does not say how large windows are.
  { family: 'qwen2_5_vl', gguf: true, only: ['one pixel', 'text only'] },
  ...[
    'qwen3_vl',
    'qwen3_vl_moe',
    'qwen3_5',
    'smolvlm',
    'pixtral',
    'mistral3',
    'lfm2_vl',
    'glm4v',
    'gemma4',
  ].map((family) => ({ family, gguf: true }) as const),
];

const asked = process.env.FAMILIES?.split(',');
const chosen = files.filter(
  ({ family, gguf }) =>
    (asked ?? (thorough ? [family] : quick)).includes(family) && (thorough || gguf === undefined),
);

/** Text before, between and after. */
const quickCases = ['two images'];
/** Several pictures as they are not prepared together: each as if it were alone. */
const otherwise = 'two images, each tiled';

/** Keys and values are halves: what logits must be apart for their order to be sure. */
const MARGIN = 0.02;

/** Room for an image's rows, and for no more than some of them in a piece. */
const SMALL_BINDING = 100_000;

function casesOf({ family, only }: Files): readonly GoldenCase[] {
  return goldenCases(family).filter(
    ({ name, referenceFails }) =>
      referenceFails === undefined &&
      name !== otherwise &&
      (only ?? (thorough ? [name] : quickCases)).includes(name),
  );
}

describeOnFastestGpu('the webgpu backend sees', () => {
  const gpu = sharedGpu();
  const open = (...path: readonly string[]) => openSeeing(gpu.create, ...path);

  it.runIf(hasTestdata).each(hasTestdata ? chosen : [])('$family, GGUF: $gguf', async (one) => {
    const seeing = await open(one.family, one.gguf ? 'model.gguf' : '');
    for (const golden of casesOf(one)) await expectGolden(seeing, golden);
    seeing.backend.close();
  });

  /** Of one image, in pieces. */
  async function featuresOf(seeing: Seeing, work = Number.POSITIVE_INFINITY): Promise<ImageFeatures> {
    const [golden] = goldenCases('gemma3').filter(({ name }) => name === 'one image') as [GoldenCase];
    const { images } = await readCase(seeing, golden);
    const run = seeing.backend.beginImage?.(images[0] as (typeof images)[number]);
    if (run === undefined) throw new Error('the backend does not see');
    let pieces = 0;
    try {
      for (; run.features === undefined; pieces++) await run.advance(work);
      expect(pieces > 1).toBe(Number.isFinite(work));
      return run.features;
    } finally {
      run.close();
    }
  }

  it.runIf(hasTestdata)(
    'has the same features in pieces of any size, and with few rows at a time',
    async () => {
      const seeing = await open('gemma3');
      const expected = await featuresOf(seeing);
      expect(await featuresOf(seeing, 3e5)).toEqual(expected);
      seeing.backend.close();
      const limited = await openSeeing(within(SMALL_BINDING), 'gemma3');
      expect(await featuresOf(limited)).toEqual(expected);
      limited.backend.close();
    },
  );

  it.runIf(hasTestdata)('says what an image takes that is more than the GPU binds', async () => {
    const seeing = await openSeeing(within(SMALL_BINDING / 2), 'gemma3');
    await expect(featuresOf(seeing)).rejects.toThrow(/takes \d+ bytes, more than this GPU binds/);
    seeing.backend.close();
  });

  const within =
    (bindingBytes: number): CreateBackend =>
    (spec, weights) =>
      createWebGpuBackend(spec, weights, { blockCount: 4, gpu: withBinding(gpu.gpu(), bindingBytes) });
});

async function expectGolden(seeing: Seeing, golden: GoldenCase): Promise<void> {
  const prompt = await readCase(seeing, golden);
  expect([...prompt.ids], golden.name).toEqual(golden.inputIds);
  const images = await seen(seeing, prompt);
  expectFeatures(golden, images);
  const { rows, greedy } = await answer(seeing, prompt, images, thorough ? golden.greedy.length : 4);
  const last = every(7, rows.at(-1) ?? []);
  expect(likeness(last, golden.lastLogits.every7th), golden.name).toBeGreaterThanOrEqual(0.999);
  const close = golden.greedyMargins.findIndex((margin) => margin < MARGIN);
  const sure = close < 0 ? greedy.length : Math.min(close, greedy.length);
  expect(greedy.slice(0, sure), golden.name).toEqual(golden.greedy.slice(0, sure));
}

function expectFeatures(
  { name, visionFeatures, deepstackFeatures = [] }: GoldenCase,
  images: SequenceImages | undefined,
): void {
  expect(images === undefined, name).toBe(visionFeatures === undefined);
  if (visionFeatures === undefined || images === undefined) return;
  const outputs = [images.embeddings, ...images.deepstack];
  for (const [at, { every211th }] of [visionFeatures, ...deepstackFeatures].entries()) {
    expect(likeness(every(211, outputs[at] ?? []), every211th), name).toBeGreaterThanOrEqual(0.9999);
  }
}

/** The cosine of their angle; 0 where they differ in length. */
function likeness(own: readonly number[], known: readonly number[]): number {
  return own.length === known.length ? cosine(Float32Array.from(own), Float32Array.from(known)) : 0;
}
