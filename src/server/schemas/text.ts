// The bodies of /v1/completions, /tokenize and /detokenize.

import { z } from 'zod';
import { chatMessage } from './chat.ts';
import type { BodyRules } from './parse.ts';
import { maxLogprobs, samplingFields, sharedNoOps, sharedRefusals } from './sampling.ts';

/** As OpenAI: without a wish, a text completion is short. */
export const DEFAULT_MAX_TOKENS = 16;

const tokenIds = z.array(z.int());

export const textSchema = z.object({
  prompt: z
    .union(
      [z.string(), z.array(z.string()).min(1), tokenIds.min(1), z.array(tokenIds).min(1)],
      'must be a text, a list of texts, a list of token ids, or a list of such lists, and not empty',
    )
    .meta({ description: 'What to continue. Several prompts are answered independently.' }),
  ...samplingFields,
  max_tokens: samplingFields.max_tokens.meta({
    description: `The answer ends here at the latest. Default ${DEFAULT_MAX_TOKENS}.`,
  }),
  logprobs: z
    .int()
    .meta({
      minimum: 0,
      maximum: maxLogprobs,
      description: 'Tell log-probabilities, with so many alternatives.',
    })
    .optional(),
  echo: z.boolean().meta({ description: 'Begin with the prompt. Not together with logprobs.' }).optional(),
});

export type TextBody = z.infer<typeof textSchema>;

export const textRules: BodyRules<typeof textSchema> = {
  schema: textSchema,
  noOps: sharedNoOps,
  refused: {
    ...sharedRefusals,
    suffix: (value) => (value === '' ? undefined : 'insertion is not supported'),
    best_of: (value, { n = 1 }) =>
      value === n ? undefined : 'must equal n: choosing the best of more is not supported',
    response_format: (value) =>
      (value as { type?: unknown }).type === 'text' ? undefined : 'only { "type": "text" } is supported yet',
  },
};

export const tokenizeSchema = z.object({
  model: samplingFields.model,
  prompt: z.string().meta({ description: 'A text to encode; give it or messages.' }).optional(),
  messages: z.array(chatMessage).min(1).optional(),
  add_special_tokens: z
    .boolean()
    .meta({ description: 'Put in front what the model wants before a text. Default true; not for messages.' })
    .optional(),
  add_generation_prompt: z.boolean().meta({ description: 'For messages. Default true.' }).optional(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).optional(),
  return_token_strs: z.boolean().meta({ description: 'Also tell how each token is spelled.' }).optional(),
});

export const tokenizeRules: BodyRules<typeof tokenizeSchema> = {
  schema: tokenizeSchema,
  noOps: [],
  refused: {},
};

export const detokenizeSchema = z.object({
  model: samplingFields.model,
  tokens: z.array(z.int().min(0, 'a token id is a whole number, 0 or more')),
  skip_special_tokens: z.boolean().meta({ description: 'Default false.' }).optional(),
});

export const detokenizeRules: BodyRules<typeof detokenizeSchema> = {
  schema: detokenizeSchema,
  noOps: [],
  refused: {},
};
