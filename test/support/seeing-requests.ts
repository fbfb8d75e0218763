// Prompts with images for models of files, as a request to an engine has them.

import { createHash } from 'node:crypto';
import type { ImageRun } from '../../src/compute/backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { visionLimits } from '../../src/engine/load-engine.ts';
import type { EngineRequest, PromptImage, PromptImages } from '../../src/engine/request.ts';
import type { ImagePrompt } from '../../src/generation/image-prompt.ts';
import type { ImageInput } from '../../src/model/vision/vision-spec.ts';
import type { Seeing } from '../vision/golden-case.ts';
import { engineRequest, type TestRequest } from './engine-requests.ts';

export function seeingOptions({ model, backend }: Seeing): EngineOptions {
  const { spec, tokenizer } = model;
  return {
    blockCount: backend.blockCount,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [...tokenizer.eosIds],
    vision: visionLimits(spec),
  };
}

/** Each image with the places of its own features. The tower says how many these are. */
export async function promptImages(
  { model, backend }: Seeing,
  { images, places, rotaryPositions }: ImagePrompt,
): Promise<PromptImages> {
  const placed: PromptImage[] = [];
  let from = 0;
  for (const input of images) {
    const run = backend.beginImage?.(input) as ImageRun;
    while (run.features === undefined) await run.advance(Number.POSITIVE_INFINITY);
    const end = from + run.features.embeddings.length / model.spec.hiddenSize;
    run.close();
    placed.push({ key: keyOf(input), input, places: places.slice(from, end) });
    from = end;
  }
  if (from !== places.length) throw new Error(`${places.length} places for ${from} features`);
  return { images: placed, ...(rotaryPositions === undefined ? {} : { rotaryPositions }) };
}

function keyOf({ views, tiles }: ImageInput): string {
  const hash = createHash('sha256').update(JSON.stringify(tiles));
  for (const { width, height, rgb } of views) hash.update(`${width} ${height}`).update(rgb);
  return hash.digest('hex');
}

export async function seeingRequest(
  seeing: Seeing,
  prompt: ImagePrompt,
  options: Omit<TestRequest, 'prompt'>,
): Promise<EngineRequest> {
  const request = engineRequest({ ...options, prompt: prompt.ids }, seeing.model.spec.vocabSize);
  return { ...request, images: await promptImages(seeing, prompt) };
}
