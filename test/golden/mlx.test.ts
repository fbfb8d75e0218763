// Folders that mlx-lm converted, against what mlx-lm itself computes with them. Some differ from the hub's in ways that only
// answers show: norms with 1 added, convolutions turned.

import { describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { likeness, mlxModel, runGolden } from '../support/golden.ts';
import { addon, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';

const onCpu: CreateBackend = (spec, weights, options) => createCpuBackend(addon(), spec, weights, options);

const floats = ['gemma3n-bf16', 'gemma4-bf16', 'phi3-bf16', 'qwen2-fp16', 'starcoder2-bf16'];
const quantized = [
  'cohere-4bit',
  'cohere2-4bit',
  'ernie4_5-4bit',
  'exaone4-4bit',
  'gemma2-4bit',
  'gemma3-4bit',
  'gemma3_mm-4bit',
  'gemma3n-4bit',
  'gemma4-4bit',
  'glm4-4bit',
  'granite-4bit',
  'hunyuan_v1_dense-4bit',
  'llama-4bit',
  'llama-lora-fused-4bit',
  'llama-mixed_3_6',
  'llama-mxfp4',
  'ministral3-4bit',
  'mistral-2bit',
  'mistral-4bit',
  'mistral-5bit',
  'olmo2-4bit',
  'olmo3-4bit',
  'phi3-3bit',
  'phi3-4bit',
  'qwen2-4bit',
  'qwen3-3bit',
  'qwen3-4bit',
  'qwen3-6bit',
  'qwen3-lora-fused-4bit',
  'seed_oss-4bit',
  'smollm3-4bit',
  'stablelm-4bit',
  'starcoder2-4bit',
];

/** Whose tensors are not all as on the hub. */
const changedFloats = ['qwen3_5-bf16', 'granitemoehybrid_dense-bf16', 'lfm2-bf16'];
const changedQuantized = ['qwen3_5-4bit', 'qwen3_5-8bit', 'granitemoehybrid_dense-4bit', 'lfm2-4bit'];

/** Activations of 8 bits meet quantized weights; over 150 tokens a delta net adds up what they lose. */
function leastLikeness(folder: string): number {
  if (!/bit$|mxfp|mixed/.test(folder)) return 0.9999;
  if (/^qwen3_5-/.test(folder)) return 0.99;
  return /^(gemma3n|gemma4|lfm2)-/.test(folder) ? 0.995 : 0.999;
}

describe.skipIf(!hasTestdata)(
  'folders converted by mlx-lm (skipped where the shared ones are absent)',
  () => {
    it.each(changedFloats)('have the logits and greedy ids of mlx-lm in float32: %s', async (folder) => {
      const model = mlxModel(folder);
      const outcomes = await runGolden(createReferenceBackend, model);
      for (const [index, { lastLogits, midTop1, greedy }] of outcomes.entries()) {
        const expected = model.cases[index] as (typeof model.cases)[number];
        expect(likeness(expected, lastLogits)).toBeGreaterThanOrEqual(0.99999);
        expect(midTop1).toEqual(expected.midTop1);
        expect(greedy).toEqual(expected.greedy);
      }
    });

    it.skipIf(!hasAddon).each([...floats, ...quantized, ...changedFloats, ...changedQuantized])(
      'have the logits of mlx-lm on the cpu backend: %s',
      async (folder) => {
        const model = mlxModel(folder);
        const outcomes = await runGolden(onCpu, model);
        expect(outcomes.length).toBe(model.cases.length);
        for (const [index, { lastLogits }] of outcomes.entries()) {
          const likely = likeness(model.cases[index] as (typeof model.cases)[number], lastLogits);
          expect(likely).toBeGreaterThanOrEqual(leastLikeness(folder));
        }
      },
    );
  },
);
