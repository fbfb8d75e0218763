// The architectures this project can run.

import { type Config, configError } from './config.ts';
import { bert, xlmRoberta } from './families/bert.ts';
import { cohere, cohere2 } from './families/cohere.ts';
import { deepseek2, deepseek3, glm4MoeLite } from './families/deepseek.ts';
import { ernie45, ernie45Moe } from './families/ernie4-5.ts';
import { exaone4 } from './families/exaone4.ts';
import { gemma } from './families/gemma.ts';
import { gemma2 } from './families/gemma2.ts';
import { gemma3, gemmaEmbedding } from './families/gemma3.ts';
import { gemma3n } from './families/gemma3n.ts';
import { gemma4 } from './families/gemma4.ts';
import { glm4, glm4Moe, glm4v } from './families/glm4.ts';
import { gptOss } from './families/gpt-oss.ts';
import { granite, graniteHybrid, graniteMoe } from './families/granite.ts';
import { hunyuan } from './families/hunyuan.ts';
import { lfm2, lfm2Moe } from './families/lfm2.ts';
import { llama } from './families/llama.ts';
import { llama4 } from './families/llama4.ts';
import { ministral3, mistral, mixtral } from './families/mistral.ts';
import { modernbert } from './families/modernbert.ts';
import { nomicBert } from './families/nomic-bert.ts';
import { olmo2, olmo3, olmoe } from './families/olmo2.ts';
import { phi3 } from './families/phi3.ts';
import { mimo, qwen2, qwen2Moe } from './families/qwen2.ts';
import { qwen3, qwen3Moe } from './families/qwen3.ts';
import { qwen3Next, qwen35, qwen35Moe } from './families/qwen3-next.ts';
import { seedOss } from './families/seed-oss.ts';
import { smollm3 } from './families/smollm3.ts';
import { stablelm } from './families/stablelm.ts';
import { starcoder2 } from './families/starcoder2.ts';
import type { Architecture } from './model-builder.ts';
import type { Naming } from './tensor-names.ts';

const architectures: readonly Architecture[] = [
  llama,
  mistral,
  ministral3,
  mixtral,
  qwen2,
  mimo,
  qwen3,
  qwen3Moe,
  qwen3Next,
  qwen35,
  qwen35Moe,
  lfm2,
  lfm2Moe,
  graniteHybrid,
  gemma,
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
  glm4v,
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
  bert,
  xlmRoberta,
  nomicBert,
  modernbert,
  gemmaEmbedding,
];

/** By the name that its files give it. */
export function findArchitecture(name: unknown, naming: Naming): Architecture | undefined {
  return architectures.find(({ modelTypes, ggufNames }) =>
    (naming === 'gguf' ? ggufNames : modelTypes).some((known) => known === name),
  );
}

export function architectureOf(config: Config, naming: Naming): Architecture {
  const name = config.fields.model_type;
  const found = findArchitecture(name, naming);
  if (found !== undefined) return found;
  throw configError(
    config,
    'model_type',
    name === undefined ? 'is missing' : `architecture ${JSON.stringify(name)} is not supported`,
    `Use a model of one of these architectures: ${architectures.map((known) => known.name).join(', ')}.`,
  );
}
