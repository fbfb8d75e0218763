// The bodies of /v1/embeddings and /v1/rerank.

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
    normalize: (value) => (value === true ? undefined : 'vectors always have length 1'),
  },
};

const text = z.string().min(1, 'is empty');

export const rerankSchema = z.object({
  model: samplingFields.model,
  query: text.meta({ description: 'What documents are compared with.' }),
  documents: z
    .array(z.union([text, z.object({ text })], 'must be a text that is not empty, or an object with one'))
    .min(1, 'is empty')
    .meta({ description: 'Texts, or objects with a text.' }),
  top_n: z.int().min(1).meta({ description: 'Only this many of the most relevant. Default all.' }).optional(),
  return_documents: z.boolean().meta({ description: 'Return each document again. Default true.' }).optional(),
});

export const rerankRules: BodyRules<typeof rerankSchema> = {
  schema: rerankSchema,
  noOps: sharedNoOps,
  refused: {
    max_tokens_per_doc: () => 'is not supported; what is too long is refused',
    max_chunks_per_doc: () => 'is not supported; what is too long is refused',
    truncate_prompt_tokens: () => 'is not supported; what is too long is refused',
    rank_fields: () => 'is not supported; a document is one text',
  },
};
