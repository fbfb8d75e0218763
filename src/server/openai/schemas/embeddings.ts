// The body of /v1/embeddings.

import { z } from 'zod';
import type { BodyRules } from '../../http/parse-body.ts';
import { promptField } from './prompts.ts';
import { samplingFields, sharedNoOps } from './sampling.ts';

export const embeddingSchema = z.object({
  model: samplingFields.model,
  input: promptField('What to embed: each text, or each list of token ids, becomes one vector of length 1.'),
  dimensions: z
    .int()
    .meta({
      minimum: 1,
      description: 'So many leading values of each vector, again of length 1. Default all.',
    })
    .optional(),
  encoding_format: z
    .enum(['float', 'base64'])
    .meta({
      description: 'Vectors as lists of numbers, or as base64 of little-endian float32. Default float.',
    })
    .optional(),
});

export type EmbeddingBody = z.infer<typeof embeddingSchema>;

export const embeddingRules: BodyRules<typeof embeddingSchema> = {
  schema: embeddingSchema,
  noOps: sharedNoOps,
  tokenLists: ['input'],
  refused: {
    truncate_prompt_tokens: () => 'is not supported; what is too long is refused',
    pooling: () =>
      'is not supported; an answer has one vector for each text. POST /embedding has one for each token',
    normalize: (value) => (value === true ? undefined : 'vectors always have length 1'),
  },
};
