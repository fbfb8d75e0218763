// OpenAI's chat completions and completions as an upstream speaks them.

import { OpenAiReader } from './openai-reader.ts';
import type { UpstreamProtocol } from './upstream-request.ts';

/** Of both kinds. */
const sharedFields = [
  'temperature',
  'top_p',
  'n',
  'stop',
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
];

const carried = {
  chat: new Set([
    ...sharedFields,
    ...['messages', 'tools', 'tool_choice', 'parallel_tool_calls'],
    ...['response_format', 'reasoning_effort', 'prediction'],
  ]),
  text: new Set([...sharedFields, 'prompt', 'suffix', 'echo']),
};

/** OpenAI's own limit; more would be refused there, in the middle of other work. */
const MOST_STOPS = 4;

export const openaiProtocol: UpstreamProtocol = {
  refusal({ kind, fields }, extra) {
    const field = Object.keys(fields).find((name) => !carried[kind].has(name) && !extra.includes(name));
    if (field !== undefined) return { field, problem: 'cannot be carried by OpenAI’s protocol' };
    const { stop } = fields;
    if (Array.isArray(stop) && stop.length > MOST_STOPS) {
      return {
        field: 'stop',
        problem: `has ${stop.length} texts; ${MOST_STOPS} can be carried by OpenAI’s protocol`,
      };
    }
    return undefined;
  },
  path: ({ kind }) => (kind === 'chat' ? '/chat/completions' : '/completions'),
  headers: (key) => (key === undefined ? {} : { authorization: `Bearer ${key}` }),
  body: ({ kind, fields, maxTokens }, { model, lengthField }) => ({
    model,
    ...fields,
    // vLLM wants it said in both words.
    ...(fields.continue_final_message === true ? { add_generation_prompt: false } : {}),
    ...(maxTokens === undefined ? {} : { [kind === 'chat' ? lengthField : 'max_tokens']: maxTokens }),
    stream: true,
    stream_options: { include_usage: true },
  }),
  embeddingsPath: '/embeddings',
  reader: ({ kind, answers }) => new OpenAiReader(kind, answers),
};
