// What the webgpu backend promises of any one model: logits that are right, and the same bits however the tokens come.

import { expect } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import { cosine, floatTypes, together } from './backend-properties.ts';
import { alone, byReference, type GpuBackends } from './gpu-backend.ts';
import { isSlowGpu } from './on-gpu.ts';
import { randomTokens, type TinyModel } from './tiny-model.ts';

/** Reaches into a second segment of attention, where that does not take too long. */
const TOKENS = isSlowGpu ? 12 : 70;

/** Expects the logits of the reference backend, and their bits among others and in chunks. */
export async function expectPromises(
  backends: GpuBackends,
  model: TinyModel,
  kvType: KvType,
  seed = 5,
): Promise<void> {
  const { spec, weights } = model;
  const { vocabSize } = spec;
  const tokens = randomTokens(TOKENS, vocabSize, seed);
  const others = [3, 9, 1].map((count) => randomTokens(count, vocabSize, seed + count));
  const isFloat = [...weights.tensors.values()].every(({ type }) => floatTypes.includes(type));
  await backends.with(model, kvType, async (backend) => {
    const expected = await alone(backend, tokens);
    const [actual] = await together(backend, [tokens, ...others], vocabSize, seed);
    expect(actual).toEqual(expected);
    const likeness = cosine(expected, await byReference(model, tokens));
    expect(likeness).toBeGreaterThan(isFloat && kvType === 'f16' ? 0.999999 : 0.999);
  });
}
