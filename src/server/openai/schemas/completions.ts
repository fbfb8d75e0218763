// The bodies of /v1/completions, /tokenize and /detokenize.

import { z } from 'zod';
import { badRequest } from '../../http/errors.ts';
import { type BodyRules, rulesFor } from '../../http/parse-body.ts';
import { chatMessage, templateFields } from './chat.ts';
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

type PromptInput = string | readonly string[] | readonly number[] | readonly (readonly number[])[];

const isText = (value: unknown) => typeof value === 'string';
const isTokenList = (value: unknown) => Array.isArray(value) && value.every(Number.isInteger);

/** Checked by hand, because a prompt may be a list of a million ids. */
function isPrompt(value: unknown): value is PromptInput {
  if (isText(value)) return true;
  if (!Array.isArray(value) || value.length === 0) return false;
  return value.every(isText) || isTokenList(value) || value.every(isTokenList);
}

const tokenListJson = { type: 'array', items: { type: 'integer', minimum: 0 } };

export const promptField = (description: string) =>
  z
    .custom<PromptInput>(
      isPrompt,
      'must be a text, a list of texts, a list of token ids, or a list of such lists, and not empty',
    )
    .meta({
      description,
      anyOf: [
        { type: 'string' },
        { type: 'array', items: { type: 'string' } },
        tokenListJson,
        { type: 'array', items: tokenListJson },
      ],
    });

export function splitPrompt(prompt: PromptInput): readonly (string | readonly number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return typeof prompt[0] === 'number' ? [prompt as readonly number[]] : (prompt as readonly string[]);
}

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
  prompt: z.string().meta({ description: 'A text to encode; give it or messages.' }).optional(),
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
    .custom<readonly number[]>(
      (value) => isTokenList(value) && (value as number[]).every((id) => id >= 0),
      'must be a list of token ids: whole numbers, 0 or more',
    )
    .meta(tokenListJson),
  skip_special_tokens: z.boolean().meta({ description: 'Default false.' }).optional(),
});

export const detokenizeRules: BodyRules<typeof detokenizeSchema> = {
  ...rulesFor(detokenizeSchema),
  tokenLists: ['tokens'],
};
