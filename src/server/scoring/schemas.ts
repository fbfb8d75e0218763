// The bodies of /rerank, /score, /classify and /pooling, as Jina, Cohere, Text Embeddings Inference, llama-server and vLLM send them, and
// their answers.

import { z } from 'zod';
import type { BodyRules, Refusal } from '../http/parse-body.ts';
import { promptUsageSchema } from '../openai/schemas/answers.ts';
import { promptField } from '../openai/schemas/prompts.ts';
import { samplingFields, sharedNoOps } from '../openai/schemas/sampling.ts';

const text = z.string().min(1, 'is empty');
const document = z.union(
  [text, z.object({ text })],
  'must be a text that is not empty, or an object with one',
);

const commonFields = {
  model: samplingFields.model,
  instruction: text
    .meta({ description: 'What documents should be good for, for models that take it.' })
    .optional(),
  truncate: z
    .boolean()
    .meta({ description: 'Cut what is too long at its end. Default false: it is refused.' })
    .optional(),
  truncate_prompt_tokens: z.int().meta({ description: '-1 is the same as truncate.' }).optional(),
};

const onlyWhole: Refusal = (value) =>
  value === -1 ? undefined : 'only -1 is possible, which cuts at the size of the context';
const tooLong = () => 'is not supported; truncate cuts what is too long for the model';

export const rerankSchema = z.object({
  ...commonFields,
  query: text.meta({ description: 'What documents are compared with.' }),
  documents: z
    .array(document)
    .min(1, 'is empty')
    .meta({ description: 'Texts, or objects with a text.' })
    .optional(),
  texts: z
    .array(text)
    .min(1, 'is empty')
    .meta({
      description:
        'The documents as Text Embeddings Inference calls them, which decides how the answer looks.',
    })
    .optional(),
  top_n: z.int().min(1).meta({ description: 'Only this many of the most relevant. Default all.' }).optional(),
  return_documents: z.boolean().meta({ description: 'Return each document again. Default true.' }).optional(),
  return_text: z.boolean().meta({ description: 'With texts: return each again. Default false.' }).optional(),
  raw_scores: z
    .boolean()
    .meta({ description: 'The outputs of the head as they are. Default false.' })
    .optional(),
});

export const rerankRules: BodyRules<typeof rerankSchema> = {
  schema: rerankSchema,
  noOps: sharedNoOps,
  refused: {
    max_tokens_per_doc: tooLong,
    max_chunks_per_doc: tooLong,
    truncate_prompt_tokens: onlyWhole,
    truncation_direction: (value) =>
      String(value).toLowerCase() === 'right' ? undefined : 'texts are cut at their end',
    rank_fields: () => 'is not supported; a document is one text',
  },
};

const oneOrMore = z.union(
  [text, z.array(text).min(1, 'is empty')],
  'must be a text that is not empty, or a list of such',
);

export const scoreSchema = z.object({
  ...commonFields,
  text_1: oneOrMore.meta({ description: 'The query, or one for each of text_2.' }),
  text_2: oneOrMore.meta({ description: 'What it is compared with.' }),
  use_activation: z
    .boolean()
    .meta({ description: 'False returns the outputs of the head as they are. Default true.' })
    .optional(),
});

export const scoreRules: BodyRules<typeof scoreSchema> = {
  schema: scoreSchema,
  noOps: sharedNoOps,
  refused: { truncate_prompt_tokens: onlyWhole },
};

export const classifySchema = z.object({
  model: samplingFields.model,
  input: promptField('Each text is classified.'),
  truncate: commonFields.truncate,
  truncate_prompt_tokens: commonFields.truncate_prompt_tokens,
  use_activation: scoreSchema.shape.use_activation,
});

export const poolingSchema = classifySchema.extend({
  task: z
    .enum(['embed', 'classify', 'token_embed'])
    .meta({
      description:
        'token_embed returns the state of each token. Default: what the model was made for, embed or classify.',
    })
    .optional(),
});

export const poolingRules: BodyRules<typeof poolingSchema> = {
  schema: poolingSchema,
  noOps: sharedNoOps,
  refused: { truncate_prompt_tokens: onlyWhole },
  tokenLists: ['input'],
};

export const classifyRules: BodyRules<typeof classifySchema> = {
  schema: classifySchema,
  noOps: sharedNoOps,
  refused: { truncate_prompt_tokens: onlyWhole },
  tokenLists: ['input'],
};

export const rerankAnswerSchema = z.strictObject({
  id: z.string(),
  object: z.literal('list'),
  model: z.string(),
  results: z
    .array(
      z.strictObject({
        index: z.int().meta({ description: 'Which of the documents.' }),
        relevance_score: z.number().meta({
          description: "A cross-encoder's score; else the cosine of query and document, -1 to 1.",
        }),
        document: z.object({ text: z.string() }).optional(),
      }),
    )
    .meta({ description: 'The most relevant first.' }),
  usage: promptUsageSchema,
  meta: z
    .strictObject({
      api_version: z.strictObject({ version: z.string() }),
      billed_units: z.strictObject({ search_units: z.int() }),
    })
    .meta({ description: 'As Cohere has it; at /v2/rerank alone.' })
    .optional(),
});

export const rankedTextsSchema = z.array(
  z.strictObject({ index: z.int(), score: z.number(), text: z.string().optional() }),
);

const list = { id: z.string(), object: z.literal('list'), created: z.int(), model: z.string() };

export const scoreAnswerSchema = z.strictObject({
  ...list,
  data: z.array(z.strictObject({ index: z.int(), object: z.literal('score'), score: z.number() })),
  usage: promptUsageSchema,
});

export const classifyAnswerSchema = z.strictObject({
  ...list,
  data: z.array(
    z.strictObject({
      index: z.int(),
      label: z.string(),
      probs: z.array(z.number()),
      num_classes: z.int(),
    }),
  ),
  usage: promptUsageSchema,
});

export const poolingAnswerSchema = z.strictObject({
  ...list,
  data: z.array(
    z.strictObject({
      index: z.int(),
      object: z.literal('pooling'),
      data: z.union([z.array(z.number()), z.array(z.array(z.number()))]),
    }),
  ),
  usage: promptUsageSchema,
});
