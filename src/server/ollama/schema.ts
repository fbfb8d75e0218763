// The bodies of /api/chat, /api/generate and /api/embed.

import { z } from 'zod';
import { type BodyRules, rulesFor } from '../http/parse-body.ts';
import { maxLogprobs } from '../openai/schemas/sampling.ts';
import { toolFields } from '../openai/schemas/tools.ts';
import { optionRules, optionsSchema } from './options.ts';

const images = z
  .array(z.string('must be base64'))
  .nullish()
  .meta({ description: 'PNG, JPEG, WebP or GIF files in base64; they come before the text.' });

const toolCall = z.looseObject({
  id: z.string().optional(),
  function: z.looseObject({
    name: z.string(),
    arguments: z.record(z.string(), z.unknown(), 'must be an object').nullish(),
  }),
});

const message = z.looseObject({
  role: z.enum(['system', 'user', 'assistant', 'tool']),
  content: z.string().nullish(),
  thinking: z.string().nullish(),
  images,
  tool_calls: z.array(toolCall).nullish(),
  tool_name: z.string().nullish().meta({ description: 'Of a result: the function that gave it.' }),
  tool_call_id: z.string().nullish(),
});

const shared = {
  model: z.string().meta({ description: 'A name; the tag :latest may be left out or given.' }),
  stream: z.boolean().meta({ description: 'Lines of JSON while the answer comes. Default true.' }).optional(),
  format: z
    .union([z.enum(['', 'json']), z.record(z.string(), z.unknown())], 'must be "json" or a JSON schema')
    .meta({ description: '"json" for any object, or a JSON schema.' })
    .optional(),
  options: optionsSchema.optional(),
  think: z
    .union([z.boolean(), z.enum(['low', 'medium', 'high'])], 'must be true, false, low, medium or high')
    .meta({ description: 'Whether the model thinks first, and how long; its own way where absent.' })
    .optional(),
  keep_alive: z
    .union([z.number(), z.string()], 'must be seconds, or a duration such as "5m"')
    .meta({
      description:
        'How long the model stays loaded afterwards: seconds or a duration; -1 keeps it, 0 unloads it.',
    })
    .optional(),
  logprobs: z.boolean().meta({ description: 'Return log-probabilities. Default false.' }).optional(),
  top_logprobs: z
    .int()
    .meta({ minimum: 0, maximum: maxLogprobs, description: 'Alternatives to return for each token.' })
    .optional(),
};

export const chatSchema = z.object({
  ...shared,
  messages: z
    .array(message)
    .meta({ description: 'Without any, the model is loaded, or unloaded where keep_alive is 0.' })
    .optional(),
  tools: toolFields.tools,
});

export const generateSchema = z.object({
  ...shared,
  prompt: z
    .string()
    .meta({ description: 'Without one, the model is loaded, or unloaded where keep_alive is 0.' })
    .optional(),
  suffix: z
    .string()
    .meta({ description: 'What comes after the answer; for models trained to fill in the middle.' })
    .optional(),
  images,
  system: z.string().optional(),
  context: z
    .array(z.int())
    .meta({ description: 'What an earlier answer came with: the prompt goes on from there.' })
    .optional(),
  template: z
    .string()
    .meta({ description: "In place of the model's own, in the language of Go's text/template." })
    .optional(),
  raw: z.boolean().meta({ description: 'The prompt is taken as it is, without a template.' }).optional(),
});

const { model, keep_alive, options } = shared;

export const embedSchema = z.object({
  model,
  input: z
    .union([z.string(), z.array(z.string())], 'must be a text or a list of texts')
    .meta({ description: 'Each text becomes one vector of length 1. Without any, the model is loaded.' })
    .optional(),
  truncate: z
    .boolean()
    .meta({ description: 'What is too long loses its end; else it is refused. Default true.' })
    .optional(),
  dimensions: z
    .int()
    .min(0)
    .meta({ description: 'So many leading values of each vector, again of length 1; 0 is all.' })
    .optional(),
  keep_alive,
  options,
});

export const embeddingsSchema = z.object({
  model,
  prompt: z.string().meta({ description: 'Without one, the model is loaded.' }).optional(),
  keep_alive,
  options,
});

export type EmbedGiven = z.infer<typeof embedSchema>;
export type ChatGiven = z.infer<typeof chatSchema>;
export type GenerateGiven = z.infer<typeof generateSchema>;
export type Message = z.infer<typeof message>;

/** Prompts are never truncated and a full context never shifts: the one is an error, the other ends the answer. */
const noOps = ['truncate', 'shift'];
const inner = { options: optionRules };

export const chatRules: BodyRules<typeof chatSchema> = { schema: chatSchema, noOps, refused: {}, inner };

export const embedRules = { ...rulesFor(embedSchema), inner };

export const embeddingsRules = { ...rulesFor(embeddingsSchema), inner };

export const generateRules: BodyRules<typeof generateSchema> = {
  schema: generateSchema,
  tokenLists: ['context'],
  noOps,
  refused: {},
  inner,
};
