// Chat completions on the wire: `chat.completion` and `chat.completion.chunk`.

import type { TokenDetail } from '../generation/choice-text.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { type AnswerShape, finiteLogprob, type ShapeOptions, tokenString, usageOf } from './answer-shape.ts';

export function chatShape({ base, model, logprobs, usageComes }: ShapeOptions): AnswerShape {
  const { id, ...rest } = base;
  const later = usageComes ? { usage: null } : {};
  const chunk = (choices: readonly object[]) => ({
    id,
    object: 'chat.completion.chunk',
    ...rest,
    choices,
    ...later,
  });
  const content = (details: readonly TokenDetail[]) =>
    logprobs ? { content: details.map((detail) => entryOf(model, detail)), refusal: null } : null;
  return {
    opening: (index) =>
      chunk([{ index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }]),
    piece: (index, { text, details }) =>
      chunk([{ index, delta: { content: text }, logprobs: content(details), finish_reason: null }]),
    finish: (index, reason) => chunk([{ index, delta: {}, logprobs: null, finish_reason: reason }]),
    usage: (usage) => ({ ...chunk([]), usage: usageOf(usage) }),
    whole: (choices, usage) => ({
      id,
      object: 'chat.completion',
      ...rest,
      choices: choices.map(({ index, text, details, reason }) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null },
        logprobs: content(details),
        finish_reason: reason,
      })),
      usage: usageOf(usage),
    }),
  };
}

function entryOf(model: ServedModel, { token, logprob, top }: TokenDetail): object {
  const named = (id: number, value: number) => ({
    token: tokenString(model, id),
    logprob: finiteLogprob(value),
    bytes: [...model.tokenizer.tokenBytes(id)],
  });
  return { ...named(token, logprob), top_logprobs: top.map((one) => named(one.token, one.logprob)) };
}
