// Reads answers of OpenAI's chat completions and completions, chunk by chunk or whole.

import type { GenerationPart } from '../generation/answer-parts.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import { CallParts } from './call-parts.ts';
import {
  brokenOff,
  countOf,
  invalid,
  isObject,
  type JsonObject,
  objectsOf,
  parseObject,
  textOf,
} from './json.ts';
import { UpstreamError } from './upstream-error.ts';
import type { AnswerReader, UpstreamEvent } from './upstream-request.ts';

export class OpenAiReader implements AnswerReader {
  readonly #kind: 'chat' | 'text';
  readonly #calls: readonly CallParts[];

  constructor(kind: 'chat' | 'text', answers: number) {
    this.#kind = kind;
    this.#calls = Array.from({ length: answers }, () => new CallParts());
  }

  event(data: string): readonly UpstreamEvent[] {
    return data.trim() === '[DONE]' ? [{ kind: 'end' }] : this.#read(parseObject(data), 'delta');
  }

  whole(text: string): readonly UpstreamEvent[] {
    return [...this.#read(parseObject(text), 'message'), { kind: 'end' }];
  }

  #read(body: JsonObject, field: 'delta' | 'message'): UpstreamEvent[] {
    if (body.error !== undefined && body.error !== null) throw brokenOff(body);
    const events = objectsOf(body.choices, 'choices').flatMap((choice) => this.#choice(choice, field));
    return isObject(body.usage) ? [...events, ...usageOf(body.usage)] : events;
  }

  #choice(choice: JsonObject, field: 'delta' | 'message'): UpstreamEvent[] {
    const index = choice.index ?? 0;
    const calls = typeof index === 'number' ? this.#calls[index] : undefined;
    if (typeof index !== 'number' || calls === undefined) throw invalid('an answer that nobody asked for');
    const parts = this.#kind === 'text' ? contentOf(choice.text) : partsOf(choice[field], calls);
    const reason = choice.finish_reason;
    return [
      ...(parts.length === 0 ? [] : [{ kind: 'parts' as const, index, parts }]),
      ...(typeof reason === 'string'
        ? [{ kind: 'finish' as const, index, reason: reasonOf(reason), stop: textOf(choice.stop_reason) }]
        : []),
    ];
  }
}

function contentOf(text: unknown): GenerationPart[] {
  if (text === undefined || text === null || text === '') return [];
  if (typeof text !== 'string') throw invalid('content that is no text');
  return [{ kind: 'content', text }];
}

function partsOf(given: unknown, calls: CallParts): GenerationPart[] {
  if (given === undefined || given === null) return [];
  if (!isObject(given)) throw invalid('a message that is no object');
  const reasoning = textOf(given.reasoning_content) ?? textOf(given.reasoning);
  return [
    ...(reasoning === undefined ? [] : [{ kind: 'reasoning' as const, text: reasoning }]),
    ...contentOf(given.content),
    ...contentOf(given.refusal),
    ...objectsOf(given.tool_calls, 'tool_calls').flatMap((call, at) => callOf(call, at, calls)),
  ];
}

function callOf(call: JsonObject, at: number, calls: CallParts): GenerationPart[] {
  const called = isObject(call.function) ? call.function : {};
  const place = typeof call.index === 'number' ? call.index : at;
  return calls.add(place, {
    id: textOf(call.id),
    name: textOf(called.name),
    arguments: textOf(called.arguments),
  });
}

function reasonOf(reason: string): FinishReason {
  if (reason === 'length') return 'length';
  if (reason === 'content_filter') {
    throw new UpstreamError('filtered', 'ended the answer for its content', { code: reason });
  }
  return 'stop';
}

function usageOf(usage: JsonObject): UpstreamEvent[] {
  const promptTokens = countOf(usage.prompt_tokens);
  const completionTokens = countOf(usage.completion_tokens) ?? 0;
  if (promptTokens === undefined) return [];
  const details = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
  const cachedTokens = Math.min(promptTokens, countOf(details.cached_tokens) ?? 0);
  return [{ kind: 'usage', usage: { promptTokens, cachedTokens, completionTokens } }];
}
