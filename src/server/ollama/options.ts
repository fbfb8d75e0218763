// `options` of a request: sampling parameters, and settings of Ollama's runner. An option that cannot change an answer here is
// accepted without effect; one that would, and is not supported, is refused by its name.

import { z } from 'zod';
import type { ParameterNames } from '../../generation/generation-error.ts';
import type { Refusal } from '../http/parse-body.ts';
import { type SamplingBody, samplingFields } from '../openai/schemas/sampling.ts';

const { temperature, top_k, top_p, min_p, typical_p, repetition_penalty } = samplingFields;
const { presence_penalty, frequency_penalty, stop } = samplingFields;
const { repeat_last_n, mirostat, mirostat_tau, mirostat_eta } = samplingFields;

const optionFields = {
  temperature,
  top_k,
  top_p,
  min_p,
  typical_p,
  repeat_penalty: repetition_penalty,
  repeat_last_n,
  mirostat,
  mirostat_tau,
  mirostat_eta,
  presence_penalty,
  frequency_penalty,
  stop,
  seed: z
    .number()
    .meta({ type: 'integer', description: 'The same seed gives the same answer; -1 is none.' })
    .optional(),
  num_predict: z
    .int()
    .meta({ description: 'The answer ends here at the latest; -1 and -2 leave it to the context.' })
    .optional(),
  num_ctx: z
    .int()
    .min(1)
    .meta({
      description:
        'The context length that the client counts on. The model has its own; a larger value is answered with a warning.',
    })
    .optional(),
};

export const optionsSchema = z.object(optionFields);

type Options = z.infer<typeof optionsSchema>;

const only = (neutral: unknown, problem: string) => (value: unknown) =>
  value === neutral ? undefined : problem;

function isPenalized({ repeat_penalty: repeat = 1, presence_penalty, frequency_penalty }: Options): boolean {
  return repeat !== 1 || (presence_penalty ?? 0) !== 0 || (frequency_penalty ?? 0) !== 0;
}

const newlines: Refusal = (value, options) =>
  value === true || !isPenalized(options as Options)
    ? undefined
    : 'penalties count every token, newlines too';

export const optionRules = {
  known: Object.keys(optionFields),
  noOps: [
    ...['num_keep', 'num_batch', 'num_gpu', 'main_gpu', 'num_thread', 'numa', 'low_vram', 'f16_kv'],
    ...['use_mmap', 'use_mlock', 'logits_all'],
  ],
  refused: {
    penalize_newline: newlines,
    tfs_z: only(1, 'is not supported; typical_p is'),
    vocab_only: only(false, 'is not supported'),
    embedding_only: only(false, 'is not supported'),
  } satisfies Record<string, Refusal>,
};

export function samplingFrom({
  repeat_penalty,
  num_predict,
  num_ctx: _,
  seed,
  ...same
}: Options = {}): Omit<SamplingBody, 'model' | 'stream'> {
  const isEndless = num_predict === -1 || num_predict === -2;
  return {
    ...same,
    ...(repeat_penalty === undefined ? {} : { repetition_penalty: repeat_penalty }),
    ...(seed === undefined || seed === -1 ? {} : { seed }),
    ...(num_predict === undefined || isEndless ? {} : { max_tokens: num_predict }),
  };
}

export const optionNames: Partial<ParameterNames> = {
  temperature: 'options.temperature',
  topK: 'options.top_k',
  topP: 'options.top_p',
  minP: 'options.min_p',
  typicalP: 'options.typical_p',
  repetitionPenalty: 'options.repeat_penalty',
  repeatLastN: 'options.repeat_last_n',
  mirostat: 'options.mirostat',
  mirostatTau: 'options.mirostat_tau',
  mirostatEta: 'options.mirostat_eta',
  presencePenalty: 'options.presence_penalty',
  frequencyPenalty: 'options.frequency_penalty',
  seed: 'options.seed',
  maxTokens: 'options.num_predict',
  logprobs: 'top_logprobs',
};
