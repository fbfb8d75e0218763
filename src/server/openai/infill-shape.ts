// Answers of /infill on the wire, as llama.cpp writes them.

import { contentOf } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/token-usage.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import type { AnswerShape, ShapeOptions } from '../jobs/answer-shape.ts';

export function infillShape({ base: { model }, usageComes }: ShapeOptions): AnswerShape {
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
