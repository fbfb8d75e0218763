// The bodies of /v1/completions, /tokenize and /detokenize.

import { z } from 'zod';
import { badRequest } from '../../http/errors.ts';
import { type BodyRules, rulesFor } from '../../http/parse-body.ts';
import { chatMessage, templateFields } from './chat.ts';
import { isTokenIds, promptField, tokenListJson } from './prompts.ts';
import { answerOptions } from './request-options.ts';
import {
  maxLogprobs,
  promptLogprobs,
  samplingFields,
  sharedKnownKeys,
  sharedNoOps,
  sharedRefusals,
} from './sampling.ts';
import { structuredOutputFields } from './structured-output.ts';
import { toolFields } from './tools.ts';

export const DEFAULT_MAX_TOKENS = 16;

export const textSchema = z.object({
  prompt: promptField('What to continue. Several prompts are answered independently.'),
  ...samplingFields,
  ...answerOptions,
  ...structuredOutputFields,
  max_tokens: samplingFields.max_tokens.meta({
    minimum: 0,
    description: `The answer ends here at the latest; 0 samples nothing. Default ${DEFAULT_MAX_TOKENS}.`,
  }),
  logprobs: z
    .int()
    .meta({
      minimum: 0,
      maximum: maxLogprobs,
      description: 'Return log-probabilities, with this many alternatives.',
    })
    .optional(),
  suffix: z
    .string()
    .meta({ description: 'What comes after the answer; for models trained to fill in the middle.' })
    .optional(),
  best_of: z
    .int()
    .meta({
      minimum: 1,
      description: 'Answers that are made for each prompt; the n likeliest a token are returned. Default n.',
    })
    .optional(),
  echo: z
    .boolean()
    .meta({ description: 'Begin with the prompt, and with its log-probabilities where they are returned.' })
    .optional(),
  prompt_logprobs: promptLogprobs,
});

export type TextBody = z.infer<typeof textSchema>;

export const textRules: BodyRules<typeof textSchema> = {
  schema: textSchema,
  noOps: sharedNoOps,
  tokenLists: ['prompt'],
  knownKeys: sharedKnownKeys,
  refused: {
    ...sharedRefusals,
    thinking_token_budget: () => 'is only possible with chats',
    include_reasoning: (value) => (value === true ? undefined : 'is only possible with chats'),
  },
};

/** How many answers are made for each prompt, and how many of them are returned. */
export function answersOf({ n = 1, best_of: made = n, stream }: TextBody): {
  made: number;
  returned: number;
} {
  if (made < n) throw badRequest('best_of', `${made} is less than n, which is ${n}`);
  if (made > n && stream === true) {
    throw badRequest('best_of', 'is not possible in a stream: the best are known when all have ended');
  }
  return { made, returned: n };
}

export const tokenizeSchema = z.object({
  model: samplingFields.model,
  prompt: z.string().meta({ description: 'A text to encode; give it, content or messages.' }).optional(),
  content: z
    .string()
    .meta({
      description: 'A text to encode as llama-server does: without tokens in front unless add_special.',
    })
    .optional(),
  add_special: z
    .boolean()
    .meta({ description: 'For content: put the tokens in front that the model expects. Default false.' })
    .optional(),
  parse_special: z
    .boolean()
    .meta({ description: 'For content: read control tokens that it spells. Default true.' })
    .optional(),
  with_pieces: z
    .boolean()
    .meta({ description: 'Tokens are objects with id and piece, what it spells. Default false.' })
    .optional(),
  messages: z.array(chatMessage).min(1).optional(),
  add_special_tokens: z
    .boolean()
    .meta({
      description:
        'Put the tokens in front that the model expects before a text. Default true; not for messages.',
    })
    .optional(),
  tools: toolFields.tools,
  ...templateFields,
  return_token_strs: z.boolean().meta({ description: 'Also return how each token is spelled.' }).optional(),
});

export const tokenizeRules = rulesFor(tokenizeSchema);

export const detokenizeSchema = z.object({
  model: samplingFields.model,
  tokens: z
    .custom<readonly number[]>(isTokenIds, 'must be a list of token ids: whole numbers, 0 or more')
    .meta(tokenListJson),
  skip_special_tokens: z.boolean().meta({ description: 'Default false.' }).optional(),
});

export const detokenizeRules: BodyRules<typeof detokenizeSchema> = {
  ...rulesFor(detokenizeSchema),
  tokenLists: ['tokens'],
};
