// Answers of /api/*, for the OpenAPI document.

import { z } from 'zod';
import { schemaValid } from '../openai/schemas/answers.ts';

const moment = z.string().meta({ format: 'date-time' });
const nanoseconds = z.int().optional();

const line = {
  model: z.string(),
  created_at: moment,
  done: z.boolean(),
  done_reason: z.enum(['stop', 'length', 'load', 'unload']).optional(),
  total_duration: nanoseconds.meta({ description: 'All durations are in nanoseconds.' }),
  load_duration: nanoseconds,
  prompt_eval_count: z.int().optional(),
  prompt_eval_duration: nanoseconds,
  eval_count: z.int().optional(),
  eval_duration: nanoseconds,
  schema_valid: schemaValid,
};

export const chatLineSchema = z.object({
  ...line,
  message: z.object({
    role: z.literal('assistant'),
    content: z.string(),
    thinking: z.string().optional(),
    tool_calls: z
      .array(
        z.object({
          id: z.string(),
          function: z.object({
            index: z.int(),
            name: z.string(),
            arguments: z.record(z.string(), z.unknown()),
          }),
        }),
      )
      .optional(),
  }),
});

export const generateLineSchema = z.object({
  ...line,
  response: z.string(),
  thinking: z.string().optional(),
  context: z
    .array(z.int())
    .meta({ description: 'In the last line: what the next prompt may go on from.' })
    .optional(),
});

export const embeddedSchema = z.object({
  model: z.string(),
  embeddings: z.array(z.array(z.number())),
  total_duration: nanoseconds,
  load_duration: nanoseconds,
  prompt_eval_count: z.int().optional(),
});

export const embeddingSchema = z.object({ embedding: z.array(z.number()) });

const details = z.object({
  format: z.string(),
  family: z.string(),
  parameter_size: z.string(),
  quantization_level: z.string(),
});

const named = { name: z.string(), model: z.string(), digest: z.string(), size: z.int(), details };

export const tagsSchema = z.object({ models: z.array(z.object({ ...named, modified_at: moment })) });

export const runningSchema = z.object({
  models: z.array(
    z.object({ ...named, size_vram: z.int(), expires_at: moment, context_length: z.int().optional() }),
  ),
});

export const shownSchema = z.object({
  modelfile: z.string(),
  parameters: z.string(),
  system: z.string().optional(),
  messages: z.array(z.looseObject({ role: z.string(), content: z.string() })).optional(),
  license: z.string().optional(),
  template: z.string(),
  details,
  model_info: z.record(z.string(), z.unknown()),
  tensors: z.array(z.object({ name: z.string(), type: z.string(), shape: z.array(z.int()) })).optional(),
  capabilities: z.array(z.string()),
  modified_at: moment,
});

export const progressSchema = z.object({
  status: z.string(),
  digest: z.string().optional(),
  total: z.int().optional(),
  completed: z.int().optional(),
});

export const versionSchema = z.object({ version: z.string(), chairlift: z.string() });

export const ollamaErrorSchema = z.object({ error: z.string() });
