import { describe, expect, it } from 'vitest';
import { errorOf, type Form, readers, tokensSent } from './readers.ts';

const event = (data: object) => `event: x\ndata: ${JSON.stringify(data)}\n\n`;
const lines = (...data: object[]) => data.map((line) => `${JSON.stringify(line)}\n`).join('');

const response = {
  id: 'resp_1',
  status: 'incomplete',
  error: null,
  output: [{ content: [{ text: 'Hello there' }] }],
  usage: { input_tokens: 9, output_tokens: 2 },
};
const responseStream =
  event({ type: 'response.created', response: { ...response, output: [], usage: null } }) +
  event({ type: 'response.output_text.delta', delta: 'Hello' }) +
  event({ type: 'response.output_text.delta', delta: ' there' });
const usage = { input_tokens: 4, cache_read_input_tokens: 5, output_tokens: 2 };
const messageStream =
  event({ type: 'message_start', message: { usage: { ...usage, output_tokens: 0 } } }) +
  event({ type: 'content_block_delta', delta: { text: 'Hello' } }) +
  event({ type: 'content_block_delta', delta: { text: ' there' } }) +
  event({ type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage });
const counts = { done: true, done_reason: 'length', prompt_eval_count: 9, eval_count: 2 };

/** Whole, as a stream, and a stream without its end. */
const answers: readonly [Form, string, Form, string, string][] = [
  [
    'responses',
    JSON.stringify(response),
    'responses stream',
    responseStream + event({ type: 'response.incomplete', response }),
    responseStream,
  ],
  [
    'messages',
    JSON.stringify({ content: [{ text: 'Hello there' }], stop_reason: 'max_tokens', usage }),
    'messages stream',
    messageStream + event({ type: 'message_stop' }),
    messageStream,
  ],
  [
    'ollama',
    JSON.stringify({ message: { content: 'Hello there' }, ...counts }),
    'ollama stream',
    lines(
      { message: { content: 'Hello' }, done: false },
      { message: { content: ' there' }, done: false },
      { message: { content: '' }, ...counts },
    ),
    lines({ message: { content: 'Hello there' }, done: false }),
  ],
];

describe('an answer by another protocol', () => {
  it.each(answers)(
    '%s is the same whole and streamed, with what it used',
    (form, whole, streamed, stream) => {
      const answer = readers[form](whole);
      expect(answer).toMatchObject({ kind: 'answer', usage: { promptTokens: 9, completionTokens: 2 } });
      const { id: _, ...same } = { id: undefined, ...answer };
      expect(readers[streamed](stream)).toEqual(same);
    },
  );

  it.each(answers)('%s is nothing where its stream just ends', (_form, _whole, streamed, _stream, cut) => {
    expect(readers[streamed](cut).kind).toBe('nothing');
  });

  it('can be gone on from where it was kept', () => {
    const read = (store: boolean) => readers.responses(JSON.stringify({ ...response, store }));
    expect([read(true), read(false)].map((outcome) => 'id' in outcome && outcome.id)).toEqual([
      'resp_1',
      false,
    ]);
  });

  it('has its errors told apart where there are no codes', () => {
    expect(errorOf({ error: 'the queue is full: 16 wait' })?.code).toBe('queue_full');
    const message = 'the server is shutting down and takes no new requests';
    expect(errorOf({ type: 'error', error: { type: 'api_error', message } })?.code).toBe('shutting_down');
    const stream = lines({ message: { content: 'Hel' }, done: false }, { error: message });
    expect(readers['ollama stream'](stream)).toMatchObject({ kind: 'error', status: 503, inStream: true });
  });
});

describe('what was sent of a stream', () => {
  it('is at least a token for each piece of text', () => {
    const piece = (content: string) => event({ choices: [{ index: 0, delta: { content } }] });
    expect(tokensSent(piece('') + piece('a') + piece('b'), 'stream')).toBe(2);
  });
});
