// Chat completions: how their bodies are read, and their answers on the wire: `chat.completion` and `chat.completion.chunk`.

import type { GenerationPart, TokenDetail } from '../../generation/answer-parts.ts';
import { requirementsFor } from '../../generation/response-format.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import { doneEvents } from '../http/sse.ts';
import {
  type AnswerShape,
  entryOf,
  type ShapeOptions,
  usageOf,
  validity,
  withDetails,
} from '../jobs/answer-shape.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { AnswerExtras, tokenNames } from './answer-extras.ts';
import { isOlder } from './older-functions.ts';
import { readChat } from './read-chat.ts';
import {
  type ChatBody,
  type ChatRequest,
  chatLogprobs,
  chatMaxTokens,
  chatRules,
  predictedText,
  templateOptions,
} from './schemas/chat.ts';
import { samplingOf, scoringOf } from './schemas/sampling.ts';
import { structuredOutputOf } from './schemas/structured-output.ts';
import { toolSelection } from './schemas/tools.ts';
import { chatRequest } from './upstream-request.ts';

export const chatKind: CompletionKind<ChatBody> = {
  names: (body) => ({
    ...wireNames,
    prompt: 'messages',
    logprobs: 'top_logprobs',
    maxTokens: chatMaxTokens(body).name,
  }),
  maxTokens: (body) => chatMaxTokens(body).value,
  sampling(body, model) {
    const extras = { logprobs: chatLogprobs(body), maxTokens: this.maxTokens(body) };
    return samplingOf(body, extras, model, this.names(body));
  },
  prompts: (body, settings) => [
    {
      kind: 'chat',
      messages: body.messages,
      tools: toolSelection(body).shown,
      bos: body.add_special_tokens,
      ...templateOptions(body, settings),
    },
  ],
  responseFormat: (body) => ({
    ...requirementsFor(structuredOutputOf(body), body.skip_special_tokens !== false, toolSelection(body)),
    thinkingTokens: body.thinking_token_budget,
  }),
  echoes: () => false,
  expected: predictedText,
  scoring: (body) => scoringOf(body, undefined),
  remote(body, { maxChoices }) {
    return chatRequest(body, this.maxTokens(body), maxChoices);
  },
};

export const chatProtocol: Protocol<typeof chatRules.schema, ChatBody> = {
  idMark: 'chatcmpl-',
  rules: chatRules,
  kind: chatKind,
  read: readChat,
  framing: doneEvents,
  resumable: true,
  shape: chatShape,
};

function chatShape(options: ShapeOptions, given: ChatRequest): AnswerShape {
  const { base, model, logprobs, usageComes } = options;
  const { id, ...rest } = base;
  const extras = new AnswerExtras(options, given);
  const showsReasoning = given.include_reasoning !== false;
  const name = tokenNames(model, given);
  const older = isOlder(given);
  const finishOf = finishReasons(older ? 'function_call' : 'tool_calls');
  const later = usageComes ? { usage: null } : {};
  const chunk = (choices: readonly object[]) => ({
    data: { id, object: 'chat.completion.chunk', ...rest, choices, ...later, ...extras.timings() },
  });
  const content = (details: readonly TokenDetail[]) =>
    logprobs ? { content: details.map((detail) => entryOf(model, detail, name)), refusal: null } : null;
  const deltaChunk = (index: number, delta: object, details?: readonly TokenDetail[]) =>
    chunk([
      {
        index,
        delta,
        logprobs: details ? content(details) : null,
        finish_reason: null,
        ...extras.ofChunk(index),
      },
    ]);
  return {
    opening: (index) => {
      const { data } = deltaChunk(index, { role: 'assistant', content: '' });
      return [{ data: index === 0 ? { ...data, ...extras.ofPrompt(0) } : data }];
    },
    piece: (index, piece) => {
      extras.stream(index, piece);
      const shown = piece.parts.filter(({ kind }) => showsReasoning || kind !== 'reasoning');
      return withDetails(
        shown.map((part) => deltaOf(part, older)),
        piece.details,
        { content: '' },
      ).map(([delta, details]) => deltaChunk(index, delta, details));
    },
    finish: (index, end) => [
      chunk([
        {
          index,
          delta: {},
          logprobs: null,
          finish_reason: finishOf(end.reason, end.calls, end.hasOpenCall),
          ...validity(end),
          ...extras.ofChunk(index),
        },
      ]),
    ],
    settled: () => extras.settle(),
    closing: (usage) => {
      if (!extras.hasLastChunk) return [];
      const counted = usageComes ? { usage: usageOf(usage) } : {};
      return [{ data: { ...chunk([]).data, ...counted, ...extras.ofEnd(usage) } }];
    },
    failure: (error) => [{ data: error.body() }],
    observe: (event) => extras.observe(event),
    whole: (choices, usage) => ({
      id,
      object: 'chat.completion',
      ...rest,
      ...extras.ofChat(),
      ...extras.ofEnd(usage),
      choices: choices.map((choice) => ({
        index: choice.index,
        message: messageOf(showsReasoning ? choice : { ...choice, reasoning: '' }, older),
        logprobs: content(choice.details),
        finish_reason: choice.reason && finishOf(choice.reason, choice.calls.length, choice.hasOpenCall),
        ...extras.ofTokens(choice),
        ...validity(choice),
      })),
      usage: usageOf(usage),
    }),
  };
}

/** An answer that was cut off within a call does not finish with `tool_calls`. */
function finishReasons(called: 'tool_calls' | 'function_call') {
  return (reason: FinishReason, calls: number, hasOpenCall = false): string =>
    reason === 'stop' && calls > 0 && !hasOpenCall ? called : reason;
}

function messageOf({ text, reasoning, calls }: WholeChoice, older: boolean): object {
  const [call] = calls;
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(call === undefined
      ? {}
      : older
        ? { function_call: { name: call.name, arguments: call.arguments } }
        : {
            tool_calls: calls.map(({ id, name, arguments: given }) => ({
              id,
              type: 'function',
              function: { name, arguments: given },
            })),
          }),
  };
}

function deltaOf(part: GenerationPart, older: boolean): object {
  switch (part.kind) {
    case 'content':
      return { content: part.text };
    case 'reasoning':
      return { reasoning_content: part.text };
    case 'call': {
      const { call: index, id, name } = part;
      if (older) return { function_call: { name, arguments: '' } };
      return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    }
    case 'arguments':
      if (older) return { function_call: { arguments: part.text } };
      return { tool_calls: [{ index: part.call, function: { arguments: part.text } }] };
  }
}
