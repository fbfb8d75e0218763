import { describe, expect, it } from 'vitest';
import type { GenerationPart } from '../../generation/answer-parts.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import { WholeAnswer } from '../../generation/whole-answer.ts';
import { ApiError } from '../http/errors.ts';
import { anthropicErrorSchema, messageAnswerSchema, messageEventSchema } from './answers.ts';
import { messageEvents, messageShape } from './shape.ts';
import { reasoningOf } from './thinking.ts';

const usage = { promptTokens: 10, cachedTokens: 4, completionTokens: 3 };
const end = { reason: 'stop', calls: 0, stop: undefined } as const;
const content = (text: string): GenerationPart => ({ kind: 'content', text });
const reasoning = (text: string): GenerationPart => ({ kind: 'reasoning', text });
const call = (at: number, name: string): GenerationPart => ({ kind: 'call', call: at, name, id: `id${at}` });
const given = (at: number, text: string): GenerationPart => ({ kind: 'arguments', call: at, text });

function shape(omitsThinking = false) {
  const base = { id: 'msg_1', created: 0, model: 'demo', system_fingerprint: 'fp' };
  return messageShape({ base, promptTokens: 10, request: { id: 'req_1' }, omitsThinking });
}

function streamed(parts: readonly GenerationPart[], how: object = end, omitsThinking = false) {
  const made = shape(omitsThinking);
  const messages = [
    ...made.opening(0),
    ...parts.flatMap((part) => made.piece(0, { parts: [part], details: [] })),
    ...made.finish(0, { ...end, ...how }),
    ...made.closing(usage),
  ];
  for (const { event, data } of messages) expect(event).toBe((data as { type: string }).type);
  return messages.map(({ data }) => messageEventSchema.parse(data));
}

function whole(parts: readonly GenerationPart[], how: object = end, omitsThinking = false) {
  const answer = new WholeAnswer(1);
  answer.add({ kind: 'piece', index: 0, parts, details: [] });
  answer.add({ kind: 'finish', index: 0, ...end, ...how } as GenerationEvent);
  return messageAnswerSchema.parse(shape(omitsThinking).whole(answer.choices, usage));
}

/** As clients put the events together. */
function gathered(events: ReturnType<typeof streamed>) {
  const blocks: Record<string, unknown>[] = [];
  for (const event of events) {
    if (event.type === 'content_block_start') {
      expect(event.index).toBe(blocks.length);
      blocks.push(
        event.content_block.type === 'tool_use'
          ? { ...event.content_block, input: '' }
          : { ...event.content_block },
      );
    }
    if (event.type !== 'content_block_delta') continue;
    const block = blocks[event.index] as Record<string, string>;
    const { delta } = event;
    if (delta.type === 'text_delta') block.text += delta.text;
    if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
    if (delta.type === 'signature_delta') block.signature = delta.signature;
    if (delta.type === 'input_json_delta') block.input += delta.partial_json;
  }
  return blocks.map((block) =>
    'input' in block ? { ...block, input: JSON.parse(String(block.input)) } : block,
  );
}

describe('a message', () => {
  it('has the same blocks whole and streamed', () => {
    const parts = [
      reasoning('Hm'),
      reasoning('.'),
      content('Let me'),
      content(' see.'),
      call(0, 'weather'),
      given(0, '{"city":'),
      given(0, '"Oslo"}'),
      call(1, 'time'),
      given(1, '{}'),
    ];
    const { content: blocks } = whole(parts, { calls: 2 });
    expect(gathered(streamed(parts, { calls: 2 }))).toEqual(blocks);
    expect(blocks).toEqual([
      { type: 'thinking', thinking: 'Hm.', signature: expect.stringMatching(/.{20}/) },
      { type: 'text', text: 'Let me see.' },
      {
        type: 'tool_use',
        id: 'toolu_id0',
        name: 'weather',
        input: { city: 'Oslo' },
        caller: { type: 'direct' },
      },
      { type: 'tool_use', id: 'toolu_id1', name: 'time', input: {}, caller: { type: 'direct' } },
    ]);
  });

  it('comes as events that open, fill and close each block, between a start and an end', () => {
    const events = streamed([reasoning('Hm.'), content('Yes')]);
    expect(events.map((event) => event.type)).toEqual([
      'message_start',
      'ping',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(events[4]).toMatchObject({ index: 0, delta: { type: 'signature_delta' } });
  });

  it('carries reasoning that is not to be shown in its signature', () => {
    const parts = [reasoning('Hm'), reasoning('.'), content('Yes')];
    const [thinking] = whole(parts, end, true).content;
    expect(thinking).toMatchObject({ type: 'thinking', thinking: '' });
    expect(reasoningOf(thinking as { thinking: string; signature: string })).toBe('Hm.');
    expect(gathered(streamed(parts, end, true))[0]).toEqual(thinking);
  });

  it('of no words has no blocks', () => {
    expect(whole([]).content).toEqual([]);
    expect(gathered(streamed([]))).toEqual([]);
  });

  it.each<[readonly GenerationPart[], object, string, string | null]>([
    [[], {}, 'end_turn', null],
    [[call(0, 'weather')], {}, 'tool_use', null],
    [[call(0, 'weather')], { reason: 'length' }, 'max_tokens', null],
    [[], { stop: 'END' }, 'stop_sequence', 'END'],
    [[call(0, 'weather')], { stop: 'END' }, 'stop_sequence', 'END'],
  ])('says why it ended: %j %j', (parts, how, reason, sequence) => {
    const expected = { stop_reason: reason, stop_sequence: sequence };
    expect(whole(parts, how)).toMatchObject(expected);
    const delta = streamed(parts, { ...how, calls: parts.length }).at(-2);
    expect(delta).toMatchObject({ type: 'message_delta', delta: expected });
  });

  it('has an empty input where it was cut off within it', () => {
    const { content: blocks } = whole([call(0, 'weather'), given(0, '{"ci')], { reason: 'length' });
    expect(blocks).toMatchObject([{ type: 'tool_use', input: {} }]);
  });

  it('counts cached tokens apart', () => {
    const counted = {
      input_tokens: 6,
      cache_read_input_tokens: 4,
      cache_creation_input_tokens: 0,
      output_tokens: 3,
    };
    expect(whole([content('a')]).usage).toMatchObject(counted);
    const events = streamed([content('a')]);
    expect(events.at(-2)).toMatchObject({ usage: counted });
    expect(events[0]).toMatchObject({ message: { usage: { input_tokens: 10, output_tokens: 0 } } });
  });

  it('that fails on its way says so with the id of the request', () => {
    const [failure] = shape().failure(new ApiError(503, 'gone', {}));
    expect(failure?.event).toBe('error');
    expect(anthropicErrorSchema.parse(failure?.data)).toEqual({
      type: 'error',
      error: { type: 'overloaded_error', message: 'gone' },
      request_id: 'req_1',
    });
  });

  it('says that it still comes by an event of its own', () => {
    expect(messageEvents.filler).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });
});
