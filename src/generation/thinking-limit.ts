// The marks of a model's reasoning as tokens, for an answer that may not reason for long.

import type { ServedModel } from '../pool/served-model.ts';
import type { ThinkingLimit } from '../sampling/thinking-budget.ts';
import type { AnswerFormat } from '../text/formats/format.ts';
import { invalid } from './generation-error.ts';

export const THINKING_PARAMETER = 'thinking_token_budget';

/** Throws where the model does not reason, or ends it with words that could be cut into tokens in several ways. */
export function thinkingLimit(
  tokens: number,
  { thinking, opened }: AnswerFormat,
  { tokenizer }: Pick<ServedModel, 'tokenizer'>,
  promptEnd: string,
): ThinkingLimit {
  if (thinking === undefined) throw invalid(THINKING_PARAMETER, 'this model does not reason');
  const idsOf = (mark: string) => [...tokenizer.encode(mark, { special: true })];
  const closes = thinking.closes.map(idsOf);
  if (closes.some(({ length }) => length !== 1)) {
    throw invalid(THINKING_PARAMETER, 'this model has no token that ends its reasoning');
  }
  return {
    tokens,
    opened: opened(promptEnd),
    opens: thinking.opens.map(idsOf),
    closes,
    ending: idsOf(thinking.ending),
  };
}
