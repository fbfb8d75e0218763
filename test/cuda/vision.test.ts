// Models that see on CUDA, held to transformers, and to the processor: features, logits at every position and after each of the
// greedy tokens have its bits. On a card with all families and larger pictures; on a simulated GPU with a few, or with all of them where
// CHAIRLIFT_TESTS=all.

import { describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { BitComparison } from '../support/bit-comparison.ts';
import { createOnCard, describeOnCard } from '../support/cuda-card.ts';
import { createOnCpu } from '../support/native.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';
import { answer, every, goldenCases, openSeeing, readCase, seen } from '../vision/golden-case.ts';
import { goldenFiles } from '../vision/golden-files.ts';

const asked = process.env.FAMILIES?.split(',');
/** Three positions and outputs for several layers, images and prompts that see themselves, windows, heads that turn by axes. */
const quick = ['qwen3_vl', 'gemma3', 'paligemma', 'mistral3', 'pixtral'];
const all = goldenFiles.filter(({ family }) => asked?.includes(family) ?? true);
const some = all.filter(({ family, gguf }) => asked !== undefined || (quick.includes(family) && !gguf));

interface Sizes {
  readonly cases: readonly string[];
  readonly greedy: number;
  readonly files: typeof goldenFiles;
}

function seesAsTheProcessor(
  create: CreateBackend,
  onCpu: CreateBackend,
  { cases, greedy, files }: Sizes,
): void {
  it.each(files)('$family, GGUF: $gguf', async ({ family, gguf, only, otherText }) => {
    const comparison = new BitComparison(create, onCpu);
    const seeing = await openSeeing(comparison.create, family, gguf ? 'model.gguf' : '');
    const wanted = goldenCases(family).filter(
      ({ name, referenceFails }) => (only ?? cases).includes(name) && referenceFails === undefined,
    );
    expect(wanted.length).toBeGreaterThan(0);
    for (const golden of wanted) {
      const prompt = await readCase(seeing, golden);
      const images = await seen(seeing, prompt);
      const { rows } = await answer(seeing, prompt, images, greedy);
      expect(comparison.takeDifferences(), golden.name).toEqual([]);
      if (otherText) continue;
      const last = Float32Array.from(every(7, rows.at(-1) ?? []));
      expect(cosine(last, Float32Array.from(golden.lastLogits.every7th))).toBeGreaterThanOrEqual(0.999);
    }
    expect(comparison.compared.values).toBeGreaterThan(0);
    seeing.backend.close();
  });
}

describe.skipIf(!hasTestdata)(
  'sees with the bits of the processor (skipped where test data is absent)',
  () => {
    describeOnCard('on a card', () =>
      seesAsTheProcessor(createOnCard, createOnCpu, {
        cases: ['two images', 'one image', 'tiny', 'one pixel'],
        greedy: 4,
        files: all,
      }),
    );

    describe('on a simulated GPU', () => {
      const gpu = simulatedGpu();
      seesAsTheProcessor(
        (spec, weights, options) => gpu.create({ spec, weights }, options),
        (spec, weights, options) => createCpuBackend(gpu.addon(), spec, weights, { ...options, threads: 1 }),
        { cases: ['tiny'], greedy: 2, files: thorough ? all : some },
      );
    });
  },
);
