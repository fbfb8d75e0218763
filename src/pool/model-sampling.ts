// How a model's own files say that its answers are best sampled: generation_config.json, or general.sampling.* of a GGUF.
// Only what can be met is taken; the rest stays as it is without it.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type SamplingDefaults, validateSampling } from '../sampling/parameters.ts';
import type { OpenedModel } from '../weights/open-model.ts';

type Names = Readonly<Partial<Record<keyof SamplingDefaults, string>>>;

const fileNames: Names = {
  temperature: 'temperature',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  typicalP: 'typical_p',
  repetitionPenalty: 'repetition_penalty',
};

const ggufNames: Names = {
  temperature: 'general.sampling.temp',
  topK: 'general.sampling.top_k',
  topP: 'general.sampling.top_p',
  minP: 'general.sampling.min_p',
  repetitionPenalty: 'general.sampling.penalty_repeat',
  repeatLastN: 'general.sampling.penalty_last_n',
  xtcProbability: 'general.sampling.xtc_probability',
  xtcThreshold: 'general.sampling.xtc_threshold',
  mirostat: 'general.sampling.mirostat',
  mirostatTau: 'general.sampling.mirostat_tau',
  mirostatEta: 'general.sampling.mirostat_eta',
};

export function modelSampling(files: OpenedModel): SamplingDefaults {
  if (files.format === 'gguf') return pick(ggufNames, (key) => files.metadata.get(key));
  const config = generationConfig(files.directory);
  return pick(fileNames, (key) => config[key]);
}

function pick(names: Names, find: (key: string) => unknown): SamplingDefaults {
  const found: Record<string, number> = {};
  for (const [name, key] of Object.entries(names)) {
    const value = find(key);
    if (typeof value !== 'number') continue;
    // 0.6 is not 0.6 in 32 bits, but its first seven digits are.
    const number = Number(value.toPrecision(7));
    const checked = validateSampling({ [name]: number }, { vocabSize: 1, freshSeed: { low: 0, high: 0 } });
    if (checked.ok) found[name] = number;
  }
  return found;
}

/** The tokenizer reads the same file, and says where it is wrong. */
function generationConfig(directory: string): Readonly<Record<string, unknown>> {
  const path = join(directory, 'generation_config.json');
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
}
