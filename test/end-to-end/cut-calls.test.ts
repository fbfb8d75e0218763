// A tool call that a limit or a stop string cuts off, in every protocol, whole and streamed: what began as a call is never
// shown as text, and what is given of it is the beginning of the whole call.

import type {
  Message as AnthropicMessage,
  RawMessageStreamEvent,
} from '@anthropic-ai/sdk/resources/messages';
import type { ChatResponse } from 'ollama';
import type { ChatCompletion, ChatCompletionChunk } from 'openai/resources/chat/completions';
import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { weatherQuestion } from '../support/demo-dialogues.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

const name = 'get_weather';
const description = 'Get the weather for a city';
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const chatTools = [{ type: 'function', function: { name, description, parameters } }];
const messages = [{ role: 'user', content: weatherQuestion }];
/** More than the call takes. */
const MOST_TOKENS = 24;
const common = { model: 'demo', temperature: 0 };

interface Cut {
  readonly maxTokens?: number;
  readonly stop?: string;
}

/** What a client sees of an answer; arguments are JSON text. */
interface Seen {
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly reason: unknown;
}

interface Protocol {
  readonly url: string;
  body(cut: Cut): object;
  whole(answer: unknown): Seen;
  streamed(events: readonly unknown[]): Seen;
}

/** Pieces of a stream, put together. */
class Joined {
  text = '';
  reason: unknown;
  readonly calls: { name: string; arguments: string }[] = [];

  call(called: string, given = ''): void {
    this.calls.push({ name: called, arguments: given });
  }

  extend(given: string): void {
    const last = this.calls.at(-1);
    if (last !== undefined) last.arguments += given;
  }
}

function joined<Event>(events: readonly unknown[], add: (to: Joined, event: Event) => void): Seen {
  const all = new Joined();
  for (const event of events) add(all, event as Event);
  return { text: all.text, calls: all.calls, reason: all.reason };
}

const openai: Protocol = {
  url: '/v1/chat/completions',
  body: ({ maxTokens, stop }) => ({ ...common, messages, tools: chatTools, max_tokens: maxTokens, stop }),
  whole(answer) {
    const [choice] = (answer as ChatCompletion).choices;
    const calls = (choice?.message.tool_calls ?? []).flatMap((call) =>
      call.type === 'function' ? [call.function] : [],
    );
    return { text: choice?.message.content ?? '', calls, reason: choice?.finish_reason };
  },
  streamed: (events) =>
    joined<ChatCompletionChunk>(events, (all, { choices: [choice] }) => {
      all.text += choice?.delta.content ?? '';
      all.reason = choice?.finish_reason ?? all.reason;
      for (const { function: piece } of choice?.delta.tool_calls ?? []) {
        if (piece?.name !== undefined) all.call(piece.name);
        all.extend(piece?.arguments ?? '');
      }
    }),
};

const responses: Protocol = {
  url: '/v1/responses',
  body: ({ maxTokens }) => ({
    ...common,
    input: weatherQuestion,
    tools: [{ type: 'function', name, description, parameters, strict: false }],
    max_output_tokens: maxTokens,
    store: false,
  }),
  whole: (answer) => joined([answer], addResponse),
  streamed: (events) =>
    joined<ResponseStreamEvent>(events, (all, event) => {
      if (event.type === 'response.output_text.delta') all.text += event.delta;
      if (event.type === 'response.output_item.added' && event.item.type === 'function_call')
        all.call(event.item.name);
      if (event.type === 'response.function_call_arguments.delta') all.extend(event.delta);
      if (event.type === 'response.incomplete' || event.type === 'response.completed')
        all.reason = event.response.incomplete_details?.reason ?? event.response.status;
    }),
};

function addResponse(all: Joined, { output, status, incomplete_details: details }: Response): void {
  for (const item of output) {
    if (item.type === 'function_call') all.call(item.name, item.arguments);
    if (item.type !== 'message') continue;
    for (const part of item.content) if (part.type === 'output_text') all.text += part.text;
  }
  all.reason = details?.reason ?? status;
}

const anthropic: Protocol = {
  url: '/v1/messages',
  body: ({ maxTokens = 64, stop }) => ({
    ...common,
    messages,
    tools: [{ name, description, input_schema: parameters }],
    max_tokens: maxTokens,
    ...(stop === undefined ? {} : { stop_sequences: [stop] }),
  }),
  whole(answer) {
    const { content, stop_reason: reason } = answer as AnthropicMessage;
    const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    const calls = content.flatMap((block) =>
      block.type === 'tool_use' ? [{ name: block.name, arguments: JSON.stringify(block.input) }] : [],
    );
    return { text, calls, reason };
  },
  streamed: (events) =>
    joined<RawMessageStreamEvent>(events, (all, event) => {
      if (event.type === 'content_block_start' && event.content_block.type === 'tool_use')
        all.call(event.content_block.name);
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
        all.text += event.delta.text;
      if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
        all.extend(event.delta.partial_json);
      if (event.type === 'message_delta') all.reason = event.delta.stop_reason;
    }),
};

const ollama: Protocol = {
  url: '/api/chat',
  body: ({ maxTokens, stop }) => ({
    model: 'demo',
    messages,
    tools: chatTools,
    options: { temperature: 0, num_predict: maxTokens, ...(stop === undefined ? {} : { stop: [stop] }) },
  }),
  whole: (answer) => joined([answer], addLine),
  streamed: (lines) => joined(lines, addLine),
};

function addLine(all: Joined, { message, done_reason: reason }: ChatResponse): void {
  all.text += message.content;
  for (const { function: call } of message.tool_calls ?? [])
    all.call(call.name, JSON.stringify(call.arguments));
  all.reason = reason ?? all.reason;
}

let server: TestServer;

beforeAll(async () => {
  server = await testServer();
});
afterAll(() => server.close());

async function ask({ url, body, whole, streamed }: Protocol, cut: Cut): Promise<readonly [Seen, Seen]> {
  const post = async (stream: boolean) => {
    const { statusCode, payload } = await server.app.inject({
      method: 'POST',
      url,
      payload: { ...body(cut), stream },
    });
    expect(statusCode, payload).toBe(200);
    return payload;
  };
  const [one, stream] = await Promise.all([post(false), post(true)]);
  const lines = stream.split('\n').map((line) => line.replace(/^data: /, ''));
  return [
    whole(JSON.parse(one)),
    streamed(lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))),
  ];
}

const city = /^\{\s*"city":\s*"Oslo"\s*\}$/;

describe.each([
  ["OpenAI's chat", openai, 'length'],
  ["OpenAI's Responses", responses, 'max_output_tokens'],
  ["Anthropic's messages", anthropic, 'max_tokens'],
  ["Ollama's chat", ollama, 'length'],
] as const)('%s', (_, protocol, limited) => {
  it('shows the whole call', async () => {
    for (const { text, calls } of await ask(protocol, {})) {
      expect(text).toBe('');
      expect(calls).toMatchObject([{ name, arguments: expect.stringMatching(city) }]);
    }
  });

  it('shows no text of a call that max_tokens cuts off, but what is known of the call', async () => {
    const [, whole] = await ask(protocol, {});
    const given = whole.calls[0]?.arguments ?? '';
    let known = 0;
    // One protocol at every token; what the others make of the same parts shows at some.
    const step = protocol === openai ? 1 : 4;
    const limits = Array.from({ length: MOST_TOKENS / step }, (_, index) => (index + 1) * step);
    for (const [one, pieces] of await Promise.all(limits.map((maxTokens) => ask(protocol, { maxTokens })))) {
      if (one.reason !== limited) continue;
      expect([one.text, pieces.text, pieces.reason]).toEqual(['', '', limited]);
      // Ollama's calls are objects, and Anthropic's are when they are whole: such a call is left out, or is empty.
      expect(one.calls.length).toBe(pieces.calls.length);
      for (const call of pieces.calls) {
        known++;
        expect(call.name).toBe(name);
        expect(given.startsWith(call.arguments)).toBe(true);
      }
    }
    expect(known).toBeGreaterThan(0);
  });
});

describe.each([
  ["OpenAI's chat", openai, 'stop'],
  ["Anthropic's messages", anthropic, 'stop_sequence'],
  ["Ollama's chat", ollama, 'stop'],
] as const)('%s', (_, protocol, stopped) => {
  it.each(['"name"', '"arguments"', 'Oslo'])('shows no text of a call that ends at %j', async (stop) => {
    for (const { text, calls, reason } of await ask(protocol, { stop })) {
      expect({ text, reason }).toEqual({ text: '', reason: stopped });
      for (const call of calls) expect(call.arguments).not.toMatch(city);
    }
  });
});
