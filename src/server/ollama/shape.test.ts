import { describe, expect, it } from 'vitest';
import type { GenerationPart } from '../../generation/answer-parts.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import { ApiError } from '../http/errors.ts';
import { countText } from './models.ts';
import { messageLayout, ollamaShape, responseLayout, timeText } from './shape.ts';

const usage = { promptTokens: 7, cachedTokens: 0, completionTokens: 3 };
const times = () => ({ totalMs: 10.5, loadMs: 1, promptMs: 2, answerMs: 6.000001 });
const shape = (layout = messageLayout) =>
  ollamaShape({ model: {} as ServedModel, logprobs: false, times }, 'given:latest', layout);

type Data = Record<string, unknown>;

function streamed(parts: readonly GenerationPart[], reason: FinishReason = 'stop'): Data[] {
  const one = shape();
  const pieces = parts.flatMap((part) => one.piece(0, { parts: [part], details: [] }));
  return [
    ...one.opening(0),
    ...pieces,
    ...one.finish(0, { reason, calls: 0, stop: undefined }),
    ...one.closing(usage),
  ].map(({ data }) => data as Data);
}

const begin = (call: number, name: string): GenerationPart => ({ kind: 'call', call, name, id: `id${call}` });
const more = (call: number, text: string): GenerationPart => ({ kind: 'arguments', call, text });
const written = (index: number, name: string, given: object) => ({
  id: `id${index}`,
  function: { index, name, arguments: given },
});

describe('lines of an answer', () => {
  it('hold text and thinking as they come, and the measurements in the last', () => {
    const lines = streamed([
      { kind: 'reasoning', text: 'Hm.' },
      { kind: 'content', text: 'Hello' },
    ]);
    expect(lines).toEqual([
      {
        model: 'given:latest',
        created_at: expect.any(String),
        message: { role: 'assistant', content: '', thinking: 'Hm.' },
        done: false,
      },
      expect.objectContaining({ message: { role: 'assistant', content: 'Hello' }, done: false }),
      {
        model: 'given:latest',
        created_at: expect.any(String),
        message: { role: 'assistant', content: '' },
        done: true,
        done_reason: 'stop',
        total_duration: 10_500_000,
        load_duration: 1_000_000,
        prompt_eval_count: 7,
        prompt_eval_duration: 2_000_000,
        eval_count: 3,
        eval_duration: 6_000_001,
      },
    ]);
  });

  it('hold calls whole, each when it is complete', () => {
    const lines = streamed([
      begin(0, 'a'),
      more(0, '{"x"'),
      more(0, ': 1}'),
      begin(1, 'b'),
      { kind: 'content', text: ' ok' },
    ]);
    expect(lines.map(({ message }) => message)).toEqual([
      { role: 'assistant', content: '', tool_calls: [written(0, 'a', { x: 1 })] },
      { role: 'assistant', content: '', tool_calls: [written(1, 'b', {})] },
      { role: 'assistant', content: ' ok' },
      { role: 'assistant', content: '' },
    ]);
  });

  it('hold the last call before the end, unless it was cut off', () => {
    const whole = streamed([begin(0, 'a'), more(0, '{}')]);
    expect(whole.map(({ done }) => done)).toEqual([false, true]);
    expect(whole[0]?.message).toMatchObject({ tool_calls: [written(0, 'a', {})] });
    const cut = streamed([begin(0, 'a'), more(0, '{"x": ')], 'length');
    expect(cut).toMatchObject([{ done: true, done_reason: 'length', message: { content: '' } }]);
  });

  it('are one where nothing is streamed', () => {
    const choice = { index: 0, tokens: [], details: [], reason: 'stop' as const, stop: undefined };
    const calls = [
      { id: 'id0', name: 'a', arguments: '{"x":1}' },
      { id: 'id1', name: 'b', arguments: '{"x' },
    ];
    expect(shape().whole([{ ...choice, text: 'Hi', reasoning: 'Hm.', calls }], usage)).toMatchObject({
      message: { role: 'assistant', content: 'Hi', thinking: 'Hm.', tool_calls: [written(0, 'a', { x: 1 })] },
      done: true,
      done_reason: 'stop',
    });
    expect(
      shape(responseLayout).whole([{ ...choice, text: 'Hi', reasoning: '', calls: [] }], usage),
    ).toMatchObject({ response: 'Hi', done: true, eval_count: 3 });
  });

  it('say what went wrong', () => {
    expect(shape().failure(new ApiError(500, 'gone'))).toEqual([{ data: { error: 'gone' } }]);
  });
});

describe('numbers', () => {
  it('are written as clients expect them', () => {
    expect(timeText(1_700_000_000_123.25)).toBe('2023-11-14T22:13:20.123250000Z');
    expect(timeText(999.9999999)).toBe('1970-01-01T00:00:01.000000000Z');
    expect([14_200_000, 8.03e9, 500_000].map(countText)).toEqual(['14.2M', '8.0B', '500.0K']);
  });
});
