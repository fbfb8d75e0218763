import { describe, expect, it } from 'vitest';
import type { ConversationItem } from './items.ts';
import { toMessages } from './messages.ts';

const common = { id: 'x', status: 'completed' } as const;
const said = (role: 'user' | 'assistant' | 'system' | 'developer', text: string): ConversationItem => ({
  ...common,
  type: 'message',
  role,
  content: [{ type: 'input_text', text }],
});
const thought = (text: string): ConversationItem => ({
  ...common,
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text }],
});
const call = (call_id: string): ConversationItem => ({
  ...common,
  type: 'function_call',
  call_id,
  name: `name_${call_id}`,
  arguments: '{}',
});
const result = (call_id: string, output = 'done'): ConversationItem => ({
  ...common,
  type: 'function_call_output',
  call_id,
  output,
});
const called = (id: string) => ({ id, type: 'function', function: { name: `name_${id}`, arguments: '{}' } });
const tool = (id: string) => ({ role: 'tool', tool_call_id: id, name: `name_${id}`, content: 'done' });

describe('items as messages', () => {
  it.each<[string, ConversationItem[], object[]]>([
    ['a question', [said('user', 'a')], [{ role: 'user', content: 'a' }]],
    [
      'what was said in one turn is one message',
      [thought('hm'), said('assistant', 'a'), call('1'), call('2')],
      [{ role: 'assistant', content: 'a', tool_calls: [called('1'), called('2')], reasoning_content: 'hm' }],
    ],
    [
      'reasoning before a call, under each name that templates know',
      [thought('hm'), thought('ah'), call('1')],
      [
        {
          role: 'assistant',
          content: '',
          tool_calls: [called('1')],
          reasoning_content: 'hm\nah',
          thinking: 'hm\nah',
        },
      ],
    ],
    [
      'calls and their results',
      [call('1'), call('2'), result('1'), result('2'), call('3'), result('3'), said('assistant', 'b')],
      [
        { role: 'assistant', content: '', tool_calls: [called('1'), called('2')] },
        tool('1'),
        tool('2'),
        { role: 'assistant', content: '', tool_calls: [called('3')] },
        tool('3'),
        { role: 'assistant', content: 'b' },
      ],
    ],
    [
      'two answers in a row stay two',
      [said('assistant', 'a'), said('assistant', 'b')],
      [
        { role: 'assistant', content: 'a' },
        { role: 'assistant', content: 'b' },
      ],
    ],
    [
      'reasoning that came to nothing is left out',
      [said('user', 'a'), thought('hm'), said('user', 'b')],
      [
        { role: 'user', content: 'a' },
        { role: 'user', content: 'b' },
      ],
    ],
  ])('%s', (_, items, messages) => {
    expect(toMessages(items, undefined)).toEqual(messages);
  });

  it('have one system message in front, of the instructions and what else stands there', () => {
    const items = [said('developer', 'b'), said('system', 'c'), said('user', 'd'), said('developer', 'e')];
    expect(toMessages(items, 'a')).toEqual([
      { role: 'system', content: 'a\n\nb\n\nc' },
      { role: 'user', content: 'd' },
      { role: 'developer', content: 'e' },
    ]);
  });

  it('are refused where a result has no call before it', () => {
    expect(() => toMessages([result('1'), call('1')], undefined)).toThrow(
      /no call before the function_call_output .*'1'/,
    );
  });
});
