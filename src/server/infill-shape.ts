// Answers of /infill on the wire, as llama.cpp writes them.

import type { TokenUsage } from '../generation/token-usage.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';

export function infillShape({ base: { model } }: ShapeOptions): AnswerShape {
  const end = (reason: FinishReason | undefined) => ({
    stop: true,
    stop_type: reason === 'length' ? 'limit' : 'eos',
    model,
  });
  const used = ({ promptTokens, cachedTokens, completionTokens }: TokenUsage) => ({
    tokens_evaluated: promptTokens,
    tokens_cached: cachedTokens,
    tokens_predicted: completionTokens,
  });
  return {
    opening: () => undefined,
    piece: (index, { text }) => ({ index, content: text, stop: false }),
    finish: (index, reason) => ({ index, content: '', ...end(reason) }),
    usage: (usage) => ({ index: 0, content: '', stop: true, ...used(usage) }),
    whole: ([choice], usage) => ({
      index: 0,
      content: choice?.text ?? '',
      ...end(choice?.reason),
      truncated: false,
      ...used(usage),
    }),
  };
}
