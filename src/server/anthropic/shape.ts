// Messages on the wire: a `message`, or events that begin, fill and end its content blocks one after the other.

import type { FastifyRequest } from 'fastify';
import type { GenerationPart, NamedCall } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { WholeCall, WholeChoice } from '../../generation/whole-answer.ts';
import { type Framing, namedEvents } from '../http/sse.ts';
import {
  type AnswerShape,
  type ChoiceEnd,
  type ShapeOptions,
  type StreamMessage,
  validity,
} from '../jobs/answer-shape.ts';
import { shownId } from './conversation.ts';
import { anthropicError } from './errors.ts';
import { shownThinking } from './thinking.ts';

const ping = { type: 'ping' };

/** Anthropic's streams are kept alive with an event of their own. */
export const messageEvents: Framing = { ...namedEvents, filler: namedEvents.frame(ping, ping.type) };

interface MessageOptions extends Pick<ShapeOptions, 'base' | 'promptTokens' | 'edits'> {
  readonly request: Pick<FastifyRequest, 'id'>;
  readonly omitsThinking: boolean;
}

export function messageShape({
  base,
  promptTokens,
  edits,
  request,
  omitsThinking,
}: MessageOptions): AnswerShape {
  const context = edits === undefined ? {} : { context_management: edits };
  const blocks = new BlockEvents(omitsThinking);
  const message = (content: readonly object[], end: ChoiceEnd | undefined, usage: TokenUsage) => ({
    id: base.id,
    type: 'message',
    role: 'assistant',
    model: base.model,
    content,
    ...stopOf(end),
    stop_details: null,
    container: null,
    ...context,
    usage: { ...usageOf(usage), service_tier: 'standard' },
    ...validity(end ?? {}),
  });
  let ended: ChoiceEnd | undefined;
  return {
    opening() {
      // How much of the prompt was cached is known only later.
      const usage = { promptTokens, cachedTokens: 0, completionTokens: 0 };
      return [event({ type: 'message_start', message: message([], undefined, usage) }), event(ping)];
    },
    piece: (_index, { parts }) => parts.flatMap((part) => blocks.add(part)),
    finish(_index, end) {
      ended = end;
      return blocks.end();
    },
    closing: (usage) => [
      event({
        type: 'message_delta',
        delta: { ...stopOf(ended), stop_details: null, container: null, ...validity(ended ?? {}) },
        ...context,
        usage: usageOf(usage),
      }),
      event({ type: 'message_stop' }),
    ],
    failure: (error) => [{ event: 'error', data: anthropicError(error, request) }],
    whole([choice], usage) {
      if (choice === undefined) throw new RangeError('a message is one choice');
      const { reason, stop, calls, isValid } = choice;
      const end = reason && {
        reason,
        stop,
        calls: calls.length,
        ...(isValid === undefined ? {} : { isValid }),
      };
      return message(contentOf(choice, omitsThinking), end, usage);
    },
  };
}

/** Writes content blocks; a part that belongs to another block closes the open one. */
class BlockEvents {
  readonly #omitsThinking: boolean;
  #index = -1;
  #open: 'text' | 'thinking' | 'tool_use' | undefined;
  #reasoning = '';

  constructor(omitsThinking: boolean) {
    this.#omitsThinking = omitsThinking;
  }

  add(part: GenerationPart): StreamMessage[] {
    switch (part.kind) {
      case 'content':
        return [...this.#enter('text'), this.#delta({ type: 'text_delta', text: part.text })];
      case 'reasoning': {
        const entered = this.#enter('thinking');
        this.#reasoning += part.text;
        if (this.#omitsThinking) return entered;
        return [...entered, this.#delta({ type: 'thinking_delta', thinking: part.text })];
      }
      case 'call':
        return [...this.end(), ...this.#begin('tool_use', callBlock(part, {}))];
      case 'arguments':
        return [this.#delta({ type: 'input_json_delta', partial_json: part.text })];
    }
  }

  end(): StreamMessage[] {
    if (this.#open === undefined) return [];
    const signature = this.#open === 'thinking' ? [this.#signature()] : [];
    this.#open = undefined;
    this.#reasoning = '';
    return [...signature, event({ type: 'content_block_stop', index: this.#index })];
  }

  #enter(kind: 'text' | 'thinking'): StreamMessage[] {
    if (this.#open === kind) return [];
    const block = kind === 'text' ? textBlock('') : { type: 'thinking', thinking: '', signature: '' };
    return [...this.end(), ...this.#begin(kind, block)];
  }

  #begin(kind: 'text' | 'thinking' | 'tool_use', block: object): StreamMessage[] {
    this.#open = kind;
    return [event({ type: 'content_block_start', index: ++this.#index, content_block: block })];
  }

  #signature(): StreamMessage {
    const { signature } = shownThinking(this.#reasoning, this.#omitsThinking);
    return this.#delta({ type: 'signature_delta', signature });
  }

  #delta(delta: object): StreamMessage {
    return event({ type: 'content_block_delta', index: this.#index, delta });
  }
}

function event(data: { readonly type: string; readonly [field: string]: unknown }): StreamMessage {
  return { event: data.type, data };
}

function contentOf({ text, reasoning, calls }: WholeChoice, omitsThinking: boolean): readonly object[] {
  return [
    ...(reasoning === '' ? [] : [{ type: 'thinking', ...shownThinking(reasoning, omitsThinking) }]),
    ...(text === '' ? [] : [textBlock(text)]),
    ...calls.map((call) => callBlock(call, inputOf(call))),
  ];
}

function textBlock(text: string): object {
  return { type: 'text', text };
}

function callBlock({ id, name }: Pick<NamedCall, 'id' | 'name'>, input: unknown): object {
  return { type: 'tool_use', id: shownId(id), name, input, caller: { type: 'direct' } };
}

/** Empty where the answer was cut off within the arguments. */
function inputOf({ arguments: given }: WholeCall): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return {};
  }
}

function stopOf(end: ChoiceEnd | undefined): object {
  const reason = end && stopReason(end);
  return {
    stop_reason: reason ?? null,
    stop_sequence: reason === 'stop_sequence' ? end?.stop : null,
  };
}

function stopReason({ reason, calls, stop }: ChoiceEnd): string {
  if (reason === 'length') return 'max_tokens';
  if (stop !== undefined) return 'stop_sequence';
  return calls > 0 ? 'tool_use' : 'end_turn';
}

/** Anthropic counts cached tokens separately. */
function usageOf({ promptTokens, cachedTokens, completionTokens }: TokenUsage): object {
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
  };
}
