// Text completions: how their bodies are read, and their answers on the wire: `text_completion`, the same for a chunk and
// for the whole.

import { contentOf, type TokenDetail } from '../../generation/answer-parts.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import { requirementsFor } from '../../generation/response-format.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import { badRequest } from '../http/errors.ts';
import { doneEvents } from '../http/sse.ts';
import {
  type AnswerShape,
  type ChoiceEnd,
  finiteLogprob,
  type ShapeOptions,
  tokenString,
  usageOf,
  validity,
} from '../jobs/answer-shape.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import {
  answersOf,
  DEFAULT_MAX_TOKENS,
  splitPrompt,
  type TextBody,
  textRules,
} from './schemas/completions.ts';
import { samplingOf } from './schemas/sampling.ts';
import { structuredOutputOf } from './schemas/structured-output.ts';

export const textKind: CompletionKind<TextBody> = {
  names: () => ({ ...wireNames, prompt: 'prompt' }),
  maxTokens: ({ max_tokens, min_tokens = 0 }) => max_tokens ?? Math.max(DEFAULT_MAX_TOKENS, min_tokens),
  sampling(body, model) {
    if (body.echo && body.logprobs !== undefined) {
      throw badRequest('echo', 'is not possible together with logprobs: those of a prompt are not computed');
    }
    const maxTokens = this.maxTokens(body);
    // Clients ask for no token to have their prompt back, or its length.
    const none = maxTokens === 0 && (body.min_tokens ?? 0) === 0;
    // The best are known by their log-probabilities.
    const logprobs = body.logprobs ?? (body.best_of === undefined ? undefined : 0);
    const extras = { logprobs, maxTokens: none ? undefined : maxTokens };
    const parameters = samplingOf(body, extras, model, this.names(body));
    return none ? { ...parameters, maxTokens } : parameters;
  },
  prompts({ prompt, suffix = '' }, { maxPrompts }) {
    const several = splitPrompt(prompt);
    if (several.length > maxPrompts) {
      throw badRequest('prompt', `${several.length} prompts are too many; ${maxPrompts} are possible`);
    }
    return several.map((one): PromptInput => {
      const isText = typeof one === 'string';
      if (suffix === '') return isText ? { kind: 'text', text: one } : { kind: 'ids', ids: one };
      if (isText) return { kind: 'gap', prefix: one, suffix, suffixName: 'suffix' };
      throw badRequest('suffix', 'needs a prompt that is a text');
    });
  },
  responseFormat(body) {
    const output = structuredOutputOf(body);
    return output && requirementsFor(output, false);
  },
  echoes: ({ echo }) => echo === true,
};

export const textProtocol: Protocol<typeof textRules.schema, TextBody> = {
  idMark: 'cmpl-',
  rules: textRules,
  kind: textKind,
  read: (body) => ({ ...body, n: answersOf(body).made }),
  framing: doneEvents,
  resumable: true,
  shape: (options, given) =>
    textShape({ ...options, logprobs: given.logprobs !== undefined }, answersOf(given)),
};

function textShape(
  { base, model, logprobs, usageComes }: ShapeOptions,
  { made, returned }: ReturnType<typeof answersOf>,
): AnswerShape {
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
    end?: ChoiceEnd,
  ) => ({
    data: {
      ...body([
        {
          index,
          text,
          logprobs: details ? lists(details) : null,
          finish_reason: end?.reason ?? null,
          ...validity(end ?? {}),
        },
      ]),
      ...later,
    },
  });
  return {
    opening: () => [],
    piece: (index, { parts, details }) => {
      const text = contentOf(parts);
      return text === '' && details.length === 0 ? [] : [chunk(index, text, details)];
    },
    finish: (index, end) => [chunk(index, '', undefined, end)],
    closing: (usage) => (usageComes ? [{ data: { ...body([]), usage: usageOf(usage) } }] : []),
    failure: (error) => [{ data: error.body() }],
    whole: (choices, usage) => ({
      ...body(
        bestOf(choices, made, returned).map(({ index, text, details, reason, isValid }) => ({
          index,
          text,
          logprobs: lists(details),
          finish_reason: reason,
          ...validity({ isValid }),
        })),
      ),
      usage: usageOf(usage),
    }),
  };
}

/** Those of each prompt with the highest mean log-probability of a token, the best first. */
function bestOf(choices: readonly WholeChoice[], made: number, returned: number): readonly WholeChoice[] {
  if (made === returned) return choices;
  const prompts = choices.length / made;
  return Array.from({ length: prompts }, (_, prompt) => {
    const own = choices.slice(prompt * made, (prompt + 1) * made);
    return own.sort((one, other) => meanLogprob(other) - meanLogprob(one)).slice(0, returned);
  })
    .flat()
    .map((choice, index) => ({ ...choice, index }));
}

function meanLogprob({ details }: WholeChoice): number {
  const sum = details.reduce((all, { logprob }) => all + finiteLogprob(logprob), 0);
  return details.length === 0 ? 0 : sum / details.length;
}
