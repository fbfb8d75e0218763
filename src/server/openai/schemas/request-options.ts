// What vLLM's and llama-server's clients say beside sampling: how long an answer may take, how its prompt is made, what comes
// back with it, and its place among the key's own requests.

import { z } from 'zod';
import type { Prompt } from '../../../generation/context-room.ts';
import { badRequest } from '../../http/errors.ts';

const flag = (description: string) => z.boolean().meta({ description }).optional();

/** Further requests of a key are worth at most this many seconds of waiting. */
const MAX_ORDER = 1000;
const MAX_SALT_CHARACTERS = 256;

export const requestOptions = {
  t_max_predict_ms: z
    .number()
    .meta({
      description:
        'The answer ends when this many milliseconds have passed since its first token and it has a line break; 0 or less is off.',
    })
    .optional(),
  include_stop_str_in_output: flag('Show the stop string that ends the answer. Default false.'),
  truncate_prompt_tokens: z
    .int()
    .meta({
      minimum: -1,
      description:
        'Only this many of the last tokens of a prompt are read; -1: as many as fit. Default: all.',
    })
    .optional(),
  add_special_tokens: flag(
    'Put the tokens in front that the model expects before a text. Default true for texts, false for chats, whose template writes them.',
  ),
  priority: z
    .int()
    .min(-MAX_ORDER)
    .max(MAX_ORDER)
    .meta({
      description:
        "Order among the key's own waiting requests: lower goes first, each step worth a second of waiting. Default 0.",
    })
    .optional(),
  cache_salt: z
    .string()
    .min(1)
    .max(MAX_SALT_CHARACTERS)
    .meta({ description: 'Prefixes are shared only with requests of the same key and salt.' })
    .optional(),
  id_slot: z
    .int()
    .meta({
      minimum: -1,
      description:
        'The slot that POST /slots/{id} saves this prefix by, where the server saves any; the last request of a slot counts. Default, and -1: the lowest that is free.',
    })
    .optional(),
};

/** Of protocols whose answers have a place for them. */
export const answerOptions = {
  n_predict: z
    .int()
    .meta({ minimum: -1, description: 'The same as max_tokens; -1 leaves the length to the context.' })
    .optional(),
  return_token_ids: flag('Return the ids of prompt and answer. Default false.'),
  return_tokens_as_token_ids: flag('Write tokens of log-probabilities as "token_id:7". Default false.'),
  timings_per_token: flag('Send timings with every chunk, as llama-server does. Default false.'),
};

type OptionsBody = z.infer<z.ZodObject<typeof requestOptions>>;
type AnswerBody = z.infer<z.ZodObject<typeof answerOptions>>;

/** `max_tokens` or one of its other names; they must agree. */
export function withPredict(
  { n_predict: predict }: Pick<AnswerBody, 'n_predict'>,
  given: { readonly name: string; readonly value: number | undefined },
): { readonly name: string; readonly value: number | undefined } {
  if (predict === undefined) return given;
  const value = predict === -1 ? undefined : predict;
  if (given.value !== undefined && given.value !== value) {
    throw badRequest('n_predict', `${predict} contradicts ${given.name}, which is ${given.value}`);
  }
  return { name: 'n_predict', value };
}

/** The last tokens of prompts, where not all are wanted. */
export function truncated(
  { truncate_prompt_tokens: most }: OptionsBody,
  prompts: readonly Prompt[],
  room: number,
): readonly Prompt[] {
  if (most === undefined) return prompts;
  if (most === 0 || most < -1) throw badRequest('truncate_prompt_tokens', 'must be 1 or more, or -1');
  const count = most === -1 ? room - 1 : most;
  return prompts.map((prompt) => {
    if (prompt.ids.length <= count) return prompt;
    if (prompt.prepareImages !== undefined) {
      throw badRequest('truncate_prompt_tokens', 'is not possible with images: they would be cut in two');
    }
    // The text would be that of more tokens.
    const { text, ...rest } = prompt;
    return { ...rest, ids: prompt.ids.slice(-count), end: text };
  });
}
