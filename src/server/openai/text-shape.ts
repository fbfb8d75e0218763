// Text completions on the wire: `text_completion`, the same for a chunk and for the whole.

import { contentOf } from '../../generation/answer-parts.ts';
import type { TokenDetail } from '../../generation/choice-text.ts';
import {
  type AnswerShape,
  finiteLogprob,
  type ShapeOptions,
  tokenString,
  usageOf,
} from '../jobs/answer-shape.ts';

export function textShape({ base, model, logprobs, usageComes }: ShapeOptions): AnswerShape {
  const { id, ...rest } = base;
  const body = (choices: readonly object[]) => ({ id, object: 'text_completion', ...rest, choices });
  const later = usageComes ? { usage: null } : {};
  const lists = (details: readonly TokenDetail[]) => {
    if (!logprobs) return null;
    const name = (token: number) => tokenString(model, token);
    return {
      tokens: details.map(({ token }) => name(token)),
      token_logprobs: details.map(({ logprob }) => finiteLogprob(logprob)),
      // The chosen token is always among them, so there may be one more than asked for.
      top_logprobs: details.map((detail) =>
        Object.fromEntries(
          [...detail.top, detail].map(({ token, logprob }) => [name(token), finiteLogprob(logprob)]),
        ),
      ),
      text_offset: details.map(({ offset }) => offset),
    };
  };
  const chunk = (
    index: number,
    text: string,
    details: readonly TokenDetail[] | undefined,
    reason?: string,
  ) => ({
    data: {
      ...body([{ index, text, logprobs: details ? lists(details) : null, finish_reason: reason ?? null }]),
      ...later,
    },
  });
  return {
    opening: () => [],
    piece: (index, { parts, details }) => {
      const text = contentOf(parts);
      return text === '' && details.length === 0 ? [] : [chunk(index, text, details)];
    },
    finish: (index, { reason }) => [chunk(index, '', undefined, reason)],
    closing: (usage) => (usageComes ? [{ data: { ...body([]), usage: usageOf(usage) } }] : []),
    failure: (error) => [{ data: error.body() }],
    whole: (choices, usage) => ({
      ...body(
        choices.map(({ index, text, details, reason }) => ({
          index,
          text,
          logprobs: lists(details),
          finish_reason: reason,
        })),
      ),
      usage: usageOf(usage),
    }),
  };
}
