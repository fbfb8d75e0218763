// Parameters of other servers that would change an answer and are not supported here: refused by name, unless their value changes
// nothing. What only steers a peer's internals is no error; it is named in the header with all that is unknown.

import type { Refusal } from '../../http/parse-body.ts';

const unless =
  (problem: string, ...neutral: readonly unknown[]): Refusal =>
  (value) =>
    neutral.includes(value) || (Array.isArray(value) && value.length === 0) ? undefined : problem;

const noSampler = 'is not supported; the samplers are those of the parameter samplers';

export const peerRefusals: Readonly<Record<string, Refusal>> = {
  // vLLM
  use_beam_search: unless('beam search is not supported', false),
  length_penalty: unless('belongs to beam search, which is not supported', 1),
  early_stopping: unless('belongs to beam search, which is not supported', false),
  logits_processors: unless('is not supported'),
  logits_processor_pattern: unless('is not supported'),
  spaces_between_special_tokens: unless('control tokens are shown as they are', true),
  logprob_token_ids: unless('is not supported; logprobs returns the likeliest tokens'),
  repetition_detection: unless('is not supported; dry_multiplier is'),
  mm_processor_kwargs: unless('the only modality is text'),
  multi_modal_data: unless('the only modality is text'),
  // llama-server
  post_sampling_probs: unless('log-probabilities are those before samplers', false),
  n_indent: unless('is not supported', 0),
  lora: unless('adapters are chosen by the name of the model'),
  multimodal_data: unless('the only modality is text'),
  grammar_lazy: unless('is not supported; tools begin where the model calls one', false),
  grammar_triggers: unless('is not supported; tools begin where the model calls one'),
  adaptive_target: (value) => (typeof value === 'number' && value < 0 ? undefined : noSampler),
  reasoning_format: unless(
    'reasoning is always separated; skip_special_tokens: false leaves it in the text',
    'auto',
    'deepseek',
  ),
  // SGLang
  custom_logit_processor: unless('is not supported'),
  return_hidden_states: unless('is not supported', false),
  separate_reasoning: unless('skip_special_tokens: false leaves reasoning in the text', true),
  lora_path: unless('adapters are chosen by the name of the model'),
  // Others
  top_a: unless(noSampler, 0),
  tfs: unless(noSampler, 1),
  tfs_z: unless(noSampler, 1),
  epsilon_cutoff: unless(noSampler, 0),
  eta_cutoff: unless(noSampler, 0),
  smoothing_factor: unless(noSampler, 0),
  penalty_alpha: unless(noSampler, 0),
  no_repeat_ngram_size: unless('is not supported; dry_multiplier is', 0),
  encoder_repetition_penalty: unless('is not supported; repetition_penalty is', 1),
  guidance_scale: unless('is not supported', 1),
  negative_prompt: unless('is not supported', ''),
  temperature_last: unless("is a matter of samplers: end them with 'temperature'", false),
  mirostat_mode: unless('is called mirostat here', 0),
};
