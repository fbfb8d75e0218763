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
  usageOf,
  validity,
} from '../jobs/answer-shape.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { AnswerExtras, tokenNames } from './answer-extras.ts';
import { answersOf, DEFAULT_MAX_TOKENS, type TextBody, textRules } from './schemas/completions.ts';
import { promptInput, splitPrompt, textOf } from './schemas/prompts.ts';
import { withPredict } from './schemas/request-options.ts';
import { samplingOf, scoringOf } from './schemas/sampling.ts';
import { structuredOutputOf } from './schemas/structured-output.ts';
import { textRequest } from './upstream-request.ts';

export const textKind: CompletionKind<TextBody> = {
  names: () => ({ ...wireNames, prompt: 'prompt' }),
  maxTokens(body) {
    const { max_tokens, min_tokens = 0, n_predict } = body;
    const { value } = withPredict(body, { name: 'max_tokens', value: max_tokens });
    return value ?? (n_predict === undefined ? Math.max(DEFAULT_MAX_TOKENS, min_tokens) : undefined);
  },
  sampling(body, model) {
    const maxTokens = this.maxTokens(body);
    // Clients ask for no token to have their prompt back, or its length.
    const none = maxTokens === 0 && (body.min_tokens ?? 0) === 0;
    // The best are known by their log-probabilities.
    const logprobs = body.logprobs ?? (body.best_of === undefined ? undefined : 0);
    const extras = { logprobs, maxTokens: none ? undefined : maxTokens };
    const parameters = samplingOf(body, extras, model, this.names(body));
    return none ? { ...parameters, maxTokens } : parameters;
  },
  prompts({ prompt, suffix = '', add_special_tokens: bos }, { maxPrompts }) {
    const several = splitPrompt(prompt);
    if (several.length > maxPrompts) {
      throw badRequest('prompt', `${several.length} prompts are too many; ${maxPrompts} are possible`);
    }
    return several.map((one): PromptInput => {
      if (suffix === '') return withBos(promptInput(one), bos);
      const prefix = textOf(one);
      if (prefix !== undefined) return { kind: 'gap', prefix, suffix, suffixName: 'suffix' };
      throw badRequest('suffix', 'needs a prompt that is a text');
    });
  },
  responseFormat(body) {
    const output = structuredOutputOf(body);
    return output && requirementsFor(output, false);
  },
  echoes: ({ echo }) => echo === true,
  scoring: (body) => scoringOf(body, body.echo === true ? body.logprobs : undefined),
  remote(body, { maxChoices }) {
    return textRequest(body, this.maxTokens(body), maxChoices);
  },
};

export const textProtocol: Protocol<typeof textRules.schema, TextBody> = {
  idMark: 'cmpl-',
  rules: textRules,
  kind: textKind,
  read: (body) => ({ ...body, n: answersOf(body).made }),
  framing: doneEvents,
  resumable: true,
  shape: (options, given) => textShape({ ...options, logprobs: given.logprobs !== undefined }, given),
};

function textShape(options: ShapeOptions, given: TextBody): AnswerShape {
  const { base, model, logprobs, usageComes } = options;
  const { made, returned } = answersOf(given);
  const { id, ...rest } = base;
  const extras = new AnswerExtras(options, given);
  const name = tokenNames(model, given);
  const begun = new Set<number>();
  const body = (choices: readonly object[]) => ({
    id,
    object: 'text_completion',
    ...rest,
    choices,
    ...extras.timings(),
  });
  /** With the first chunk of a choice. */
  const ofPrompt = (index: number) => {
    if (begun.has(index)) return {};
    begun.add(index);
    return extras.ofPrompt(index);
  };
  const later = usageComes ? { usage: null } : {};
  const lists = (details: readonly TokenDetail[]) => {
    if (!logprobs) return null;
    return {
      tokens: details.map(({ token }) => name(token)),
      token_logprobs: details.map(({ logprob, isFirst }) => (isFirst ? null : finiteLogprob(logprob))),
      top_logprobs: details.map((detail) => (detail.isFirst ? null : alternatives(detail, name))),
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
          ...ofPrompt(index),
          ...extras.ofChunk(index),
        },
      ]),
      ...later,
    },
  });
  return {
    opening: () => [],
    piece: (index, piece) => {
      const { parts, details } = piece;
      extras.stream(index, piece);
      const text = contentOf(parts);
      return text === '' && details.length === 0 ? [] : [chunk(index, text, details)];
    },
    finish: (index, end) => [chunk(index, '', undefined, end)],
    closing: (usage) =>
      usageComes ? [{ data: { ...body([]), usage: usageOf(usage), ...extras.ofEnd(usage) } }] : [],
    failure: (error) => [{ data: error.body() }],
    observe: (event) => extras.observe(event),
    whole: (choices, usage) => ({
      ...body(
        bestOf(choices, made, returned).map((choice) => ({
          index: choice.index,
          text: choice.text,
          logprobs: lists(choice.details),
          finish_reason: choice.reason,
          ...extras.ofPrompt(choice.index),
          ...extras.ofTokens(choice),
          ...extras.ofScores(choice.index),
          ...validity(choice),
        })),
      ),
      ...extras.ofEnd(usage),
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

function meanLogprob(choice: WholeChoice): number {
  const details = choice.details.filter(({ isPrompt }) => !isPrompt);
  const sum = details.reduce((all, { logprob }) => all + finiteLogprob(logprob), 0);
  return details.length === 0 ? 0 : sum / details.length;
}

/** The chosen token is always among them, so there may be one more than asked for. Of tokens spelled alike the likelier counts. */
function alternatives({ top, token, logprob }: TokenDetail, name: (token: number) => string): object {
  const named = new Map<string, number>();
  for (const one of [...top, { token, logprob }]) {
    const spelled = name(one.token);
    named.set(spelled, Math.max(named.get(spelled) ?? -Infinity, finiteLogprob(one.logprob)));
  }
  return Object.fromEntries(named);
}

function withBos(input: PromptInput, bos: boolean | undefined): PromptInput {
  return input.kind === 'text' ? { ...input, bos } : input;
}
