// The architectures this project can run.

import type { Architecture } from './architecture.ts';
import { cohere, cohere2 } from './cohere.ts';
import { type Config, configError } from './config.ts';
import { deepseek2, deepseek3, glm4MoeLite } from './deepseek.ts';
import { ernie45, ernie45Moe } from './ernie4-5.ts';
import { exaone4 } from './exaone4.ts';
import { gemma2 } from './gemma2.ts';
import { gemma3 } from './gemma3.ts';
import { gemma3n } from './gemma3n.ts';
import { gemma4 } from './gemma4.ts';
import { glm4 } from './glm4.ts';
import { glm4Moe } from './glm4-moe.ts';
import { gptOss } from './gpt-oss.ts';
import { granite, graniteHybrid, graniteMoe } from './granite.ts';
import { hunyuan } from './hunyuan.ts';
import { lfm2, lfm2Moe } from './lfm2.ts';
import { llama } from './llama.ts';
import { llama4 } from './llama4.ts';
import { mistral } from './mistral.ts';
import { mixtral } from './mixtral.ts';
import { olmo2, olmo3 } from './olmo2.ts';
import { olmoe } from './olmoe.ts';
import { phi3 } from './phi3.ts';
import { qwen2 } from './qwen2.ts';
import { qwen2Moe } from './qwen2-moe.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3Moe } from './qwen3-moe.ts';
import { qwen3Next, qwen35, qwen35Moe } from './qwen3-next.ts';
import { seedOss } from './seed-oss.ts';
import { smollm3 } from './smollm3.ts';
import { stablelm } from './stablelm.ts';
import { starcoder2 } from './starcoder2.ts';
import type { Naming } from './tensor-names.ts';

export const architectures: readonly Architecture[] = [
  llama,
  mistral,
  mixtral,
  qwen2,
  qwen3,
  qwen3Moe,
  qwen3Next,
  qwen35,
  qwen35Moe,
  lfm2,
  lfm2Moe,
  graniteHybrid,
  gemma2,
  gemma3,
  gemma3n,
  gemma4,
  phi3,
  gptOss,
  olmo2,
  olmo3,
  granite,
  graniteMoe,
  smollm3,
  glm4,
  cohere,
  cohere2,
  starcoder2,
  stablelm,
  seedOss,
  ernie45,
  hunyuan,
  exaone4,
  qwen2Moe,
  olmoe,
  glm4Moe,
  ernie45Moe,
  llama4,
  deepseek2,
  deepseek3,
  glm4MoeLite,
];

/** The architecture a file names in its field `model_type`. */
export function architectureOf(config: Config, naming: Naming): Architecture {
  const name = config.fields.model_type;
  const found = architectures.find(({ modelTypes, ggufNames }) =>
    (naming === 'gguf' ? ggufNames : modelTypes).some((known) => known === name),
  );
  if (found !== undefined) return found;
  throw configError(
    config,
    'model_type',
    name === undefined ? 'is missing' : `architecture ${JSON.stringify(name)} is not supported`,
    `Use a model of one of these architectures: ${architectures.map((known) => known.name).join(', ')}.`,
  );
}
