// /infill, as llama.cpp's clients send it and expect it answered: editors that complete code.

import { z } from 'zod';
import { contentOf } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/generation.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { BodyRules } from '../http/parse-body.ts';
import { namedEvents } from '../http/sse.ts';
import type { AnswerShape, ShapeOptions } from '../jobs/answer-shape.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { answerOptions, withPredict } from './schemas/request-options.ts';
import { samplingFields, samplingOf, sharedNoOps, sharedRefusals } from './schemas/sampling.ts';

export const infillSchema = z.object({
  input_prefix: z.string().meta({ description: 'What stands before the gap. Default empty.' }).optional(),
  input_suffix: z.string().meta({ description: 'What comes after it. Default empty.' }).optional(),
  input_extra: z
    .array(z.looseObject({ filename: z.string().optional(), text: z.string() }))
    .meta({ description: 'Other files that may help.' })
    .optional(),
  prompt: z.string().meta({ description: 'How the answer begins already. Default empty.' }).optional(),
  ...samplingFields,
  n_predict: answerOptions.n_predict,
});

type InfillBody = z.infer<typeof infillSchema>;

const infillRules: BodyRules<typeof infillSchema> = {
  schema: infillSchema,
  // Parameters of llama.cpp's own clients that do not change the answer.
  noOps: [...sharedNoOps, 'cache_prompt', 'id_slot', 'n_indent', 't_max_prompt_ms'],
  refused: {
    ...sharedRefusals,
    n: (value) => (value === 1 ? undefined : 'there is one answer'),
  },
};

function infillMaxTokens(body: InfillBody): number | undefined {
  return withPredict(body, { name: 'max_tokens', value: body.max_tokens }).value;
}

const infillKind: CompletionKind<InfillBody> = {
  names: () => ({ ...wireNames, prompt: 'input_prefix' }),
  maxTokens: infillMaxTokens,
  sampling(body, model) {
    const extras = { logprobs: undefined, maxTokens: this.maxTokens(body) };
    return samplingOf(body, extras, model, this.names(body));
  },
  prompts: ({ input_prefix: prefix = '', input_suffix: suffix = '', input_extra: files, prompt: begun }) => [
    { kind: 'gap', prefix, suffix, files, begun, suffixName: 'input_suffix' },
  ],
  responseFormat: () => undefined,
  echoes: () => false,
};

export const infillProtocol: Protocol<typeof infillSchema, InfillBody> = {
  idMark: 'infill-',
  rules: infillRules,
  kind: infillKind,
  read: (body) => body,
  framing: namedEvents,
  resumable: true,
  shape: infillShape,
};

function infillShape({ base: { model }, usageComes }: ShapeOptions): AnswerShape {
  const end = (reason: FinishReason | undefined) => ({
    stop: true,
    stop_type: reason === 'length' ? 'limit' : 'eos',
    model,
  });
  const spent = ({ promptTokens, cachedTokens, completionTokens }: TokenUsage) => ({
    tokens_evaluated: promptTokens,
    tokens_cached: cachedTokens,
    tokens_predicted: completionTokens,
  });
  return {
    opening: () => [],
    piece: (index, { parts }) => {
      const content = contentOf(parts);
      return content === '' ? [] : [{ data: { index, content, stop: false } }];
    },
    finish: (index, { reason }) => [{ data: { index, content: '', ...end(reason) } }],
    closing: (usage) =>
      usageComes ? [{ data: { index: 0, content: '', stop: true, ...spent(usage) } }] : [],
    failure: (error) => [{ data: error.body() }],
    whole: ([choice], usage) => ({
      index: 0,
      content: choice?.text ?? '',
      ...end(choice?.reason),
      truncated: false,
      ...spent(usage),
    }),
  };
}
