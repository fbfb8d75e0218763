// Reads answers of Anthropic's messages, event by event or whole.

import type { GenerationPart } from '../generation/answer-parts.ts';
import { CallParts } from './call-parts.ts';
import {
  brokenOff,
  countOf,
  invalid,
  isObject,
  type JsonObject,
  numberOf,
  objectsOf,
  parseObject,
  textOf,
} from './json.ts';
import { UpstreamError } from './upstream-error.ts';
import type { AnswerReader, UpstreamEvent } from './upstream-request.ts';

export class AnthropicReader implements AnswerReader {
  readonly #calls = new CallParts();
  #usage: JsonObject = {};

  event(data: string): readonly UpstreamEvent[] {
    const event = parseObject(data);
    switch (event.type) {
      case 'message_start':
        return this.#used(isObject(event.message) ? event.message.usage : undefined);
      case 'content_block_start':
        return partsOf(this.#block(event.content_block, placeOf(event), false));
      case 'content_block_delta':
        return partsOf(this.#delta(event.delta, placeOf(event)));
      case 'message_delta':
        return [...this.#used(event.usage), ...finishOf(event.delta)];
      case 'message_stop':
        return [{ kind: 'end' }];
      case 'error':
        throw brokenOff(event);
      default:
        return [];
    }
  }

  whole(text: string): readonly UpstreamEvent[] {
    const message = parseObject(text);
    if (message.type === 'error') throw brokenOff(message);
    const parts = objectsOf(message.content, 'content').flatMap((block, at) => this.#block(block, at, true));
    return [...partsOf(parts), ...this.#used(message.usage), ...finishOf(message), { kind: 'end' }];
  }

  /** `whole`: with the input of a call; in a stream that follows. */
  #block(block: unknown, place: number, whole: boolean): GenerationPart[] {
    if (!isObject(block)) throw invalid('a block that is no object');
    const text = textOf(block.text);
    const thinking = textOf(block.thinking);
    if (block.type === 'tool_use') {
      const input = whole ? JSON.stringify(block.input ?? {}) : undefined;
      return this.#calls.add(place, { id: textOf(block.id), name: textOf(block.name), arguments: input });
    }
    return [
      ...(thinking === undefined ? [] : [{ kind: 'reasoning' as const, text: thinking }]),
      ...(text === undefined ? [] : [{ kind: 'content' as const, text }]),
    ];
  }

  #delta(delta: unknown, place: number): GenerationPart[] {
    if (!isObject(delta)) throw invalid('a delta that is no object');
    if (delta.type === 'input_json_delta') {
      const text = textOf(delta.partial_json);
      return text === undefined
        ? []
        : this.#calls.add(place, { id: undefined, name: undefined, arguments: text });
    }
    return this.#block(delta, place, false);
  }

  /** Later events count on from earlier ones, and leave out what has not changed. */
  #used(usage: unknown): UpstreamEvent[] {
    if (isObject(usage)) this.#usage = { ...this.#usage, ...withoutNulls(usage) };
    const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens } = this.#usage;
    const uncached = countOf(input_tokens);
    if (uncached === undefined) return [];
    const cachedTokens = countOf(cache_read_input_tokens) ?? 0;
    const promptTokens = uncached + cachedTokens + (countOf(cache_creation_input_tokens) ?? 0);
    const completionTokens = countOf(output_tokens) ?? 0;
    return [{ kind: 'usage', usage: { promptTokens, cachedTokens, completionTokens } }];
  }
}

function withoutNulls(usage: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== null));
}

function placeOf({ index }: JsonObject): number {
  const place = numberOf(index);
  if (place === undefined) throw invalid('a block without a number');
  return place;
}

function partsOf(parts: readonly GenerationPart[]): UpstreamEvent[] {
  return parts.length === 0 ? [] : [{ kind: 'parts', index: 0, parts }];
}

function finishOf(given: unknown): UpstreamEvent[] {
  const { stop_reason: reason, stop_sequence: stop } = isObject(given) ? given : {};
  if (typeof reason !== 'string') return [];
  if (reason === 'refusal')
    throw new UpstreamError('filtered', 'ended the answer for its content', { code: reason });
  const isCut = reason === 'max_tokens' || reason === 'model_context_window_exceeded';
  return [{ kind: 'finish', index: 0, reason: isCut ? 'length' : 'stop', stop: textOf(stop) }];
}
