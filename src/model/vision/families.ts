// The kinds of vision towers this project can run.

import { configError } from '../config.ts';
import { gemma4 } from './families/gemma4.ts';
import { glm4v } from './families/glm4v.ts';
import { internvl } from './families/internvl.ts';
import { llama4 } from './families/llama4.ts';
import { llava, llavaOnevision } from './families/llava.ts';
import { mistral3 } from './families/pixtral.ts';
import { qwen3Vl, qwen25Vl } from './families/qwen-vl.ts';
import { gemma3, idefics3, lfm2Vl, paliGemma } from './families/siglip.ts';
import type { VisionFamily } from './vision-builder.ts';
import type { VisionSource } from './vision-source.ts';
import type { VisionSpec } from './vision-spec.ts';

const families: readonly VisionFamily[] = [
  qwen25Vl,
  qwen3Vl,
  gemma3,
  paliGemma,
  idefics3,
  llava,
  llavaOnevision,
  mistral3,
  internvl,
  lfm2Vl,
  glm4v,
  gemma4,
  llama4,
];

export function buildVision(source: VisionSource): VisionSpec {
  const { naming, kind, config, outer } = source;
  const found = families.find(({ modelTypes, projectors }) =>
    (naming === 'gguf' ? projectors : modelTypes).some((known) => known === kind),
  );
  if (found !== undefined) return found.build(source);
  const known = families.flatMap(({ modelTypes, projectors }) =>
    naming === 'gguf' ? projectors : modelTypes,
  );
  throw configError(
    naming === 'gguf' ? config : outer,
    naming === 'gguf' ? 'clip.projector_type' : 'model_type',
    `images of ${JSON.stringify(kind)} are not supported`,
    `Use a model of one of these kinds: ${known.join(', ')}.`,
  );
}
