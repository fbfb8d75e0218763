import { accumulateResponse } from 'openai/lib/responses/ResponseAccumulator';
import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import type { GenerationPart, TokenDetail } from '../../generation/answer-parts.ts';
import { type OutputEvent, OutputItems } from './output-items.ts';

const text = (value: string): GenerationPart => ({ kind: 'content', text: value });
const thought = (value: string): GenerationPart => ({ kind: 'reasoning', text: value });
const call = (at: number): GenerationPart => ({ kind: 'call', call: at, name: `f${at}`, id: `id${at}` });
const given = (at: number, value: string): GenerationPart => ({ kind: 'arguments', call: at, text: value });
const detail = (token: number): TokenDetail => ({ token, logprob: -1, top: [], offset: 0 });

function run(
  pieces: readonly (readonly GenerationPart[])[],
  status: 'completed' | 'incomplete' = 'completed',
) {
  const output = new OutputItems(({ token }) => ({ token }));
  const events = [...pieces.flatMap((parts) => output.push({ parts, details: [] })), ...output.end(status)];
  return { output, events };
}

/** What OpenAI's own library makes of the events. */
function accumulated(events: readonly OutputEvent[]): unknown[] {
  const created = { type: 'response.created', response: { output: [] as unknown[] } };
  let snapshot: Response | undefined;
  for (const event of [created, ...events]) {
    snapshot = accumulateResponse(event as unknown as ResponseStreamEvent, snapshot);
  }
  return snapshot?.output ?? [];
}

const brief = (items: readonly object[]) =>
  items.map((item) => {
    const { type, arguments: json, content } = item as Record<string, unknown>;
    return [type, json ?? (content as { text: string }[])[0]?.text];
  });

describe('an answer as items', () => {
  it.each<[string, GenerationPart[][], unknown[]]>([
    ['text', [[text('He')], [], [text('llo')]], [['message', 'Hello']]],
    ['nothing', [], [['message', '']]],
    ['white space', [[text('\n')]], [['message', '\n']]],
    [
      'reasoning, then text',
      [[thought('a')], [thought('b'), text('\n\n')], [text('c')]],
      [
        ['reasoning', 'ab'],
        ['message', '\n\nc'],
      ],
    ],
    [
      'calls, with nothing but space around them',
      [
        [text('\n')],
        [call(0)],
        [given(0, '{"a"')],
        [given(0, ':1}')],
        [text('\n'), call(1), given(1, '{}')],
        [text('\n')],
      ],
      [
        ['function_call', '{"a":1}'],
        ['function_call', '{}'],
      ],
    ],
    [
      'text before and behind a call',
      [[text('a '), call(0), given(0, '{}'), text(' b')]],
      [
        ['message', 'a '],
        ['function_call', '{}'],
        ['message', ' b'],
      ],
    ],
  ])('%s', (_, pieces, items) => {
    const { output, events } = run(pieces);
    expect(brief(output.items)).toEqual(items);
    expect(accumulated(events)).toEqual(output.items);
  });

  it('sends reasoning as it comes', () => {
    const { events, output } = run([[thought('a')], [text('b')]]);
    expect(events.map(({ type }) => type)).toEqual([
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.delta',
      'response.reasoning_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
    ]);
    expect(output.items.map(({ id }) => id)).toEqual([
      expect.stringMatching(/^rs_/),
      expect.stringMatching(/^msg_/),
    ]);
    expect(events.map((event) => event.output_index)).toEqual([...Array(6).fill(0), ...Array(6).fill(1)]);
  });

  it('counts tokens of reasoning, and the marks around it', () => {
    expect(run([[text('a')], [text('b')]]).output.reasoningTokens).toBe(0);
    expect(run([[], [thought('a')], [], [thought('b')], [], [text('c')]]).output.reasoningTokens).toBe(5);
  });

  it('has its last item incomplete where it was cut off', () => {
    const { output } = run([[text('a'), call(0), given(0, '{"a')]], 'incomplete');
    expect(output.items.map(({ status }) => status)).toEqual(['completed', 'incomplete']);
  });

  it('sends what is known of the tokens of its text, and of no others', () => {
    const output = new OutputItems(({ token }) => ({ token }));
    const push = (token: number, ...parts: GenerationPart[]) =>
      output.push({ parts, details: [detail(token)] });
    const events = [
      ...push(1, thought('a')),
      ...push(2, text('b')),
      ...push(3),
      ...push(4, text('cd')),
      ...push(5),
      ...push(6, call(0)),
      ...push(7, given(0, '{}')),
      ...output.end('completed'),
    ];
    const logprobs = (type: string) =>
      events.flatMap((event) => (event.type === type ? [event.logprobs] : []));
    expect(logprobs('response.output_text.delta')).toEqual([[{ token: 2 }], [{ token: 3 }, { token: 4 }]]);
    expect(logprobs('response.output_text.done')).toEqual([[{ token: 2 }, { token: 3 }, { token: 4 }]]);
  });
});
