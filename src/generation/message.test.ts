import { describe, expect, it } from 'vitest';
import { GenerationError } from './generation-error.ts';
import { checkMessages } from './message.ts';

describe('messages of unknown making', () => {
  it('are taken as they are where they are right', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }], name: 'ada' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c' }], name: null, tool_call_id: null },
      { role: 'tool', content: '5', tool_call_id: 'c' },
    ];
    expect(checkMessages(messages)).toBe(messages);
  });

  it.each<[string, unknown, string]>([
    ['no list', 'Hello', 'messages'],
    ['nothing', [], 'messages'],
    ['a text', ['Hello'], 'messages[0]'],
    ['an unknown role', [{ role: 'poet', content: 'x' }], 'messages[0].role'],
    ['a number for content', [{ role: 'user', content: 5 }], 'messages[0].content'],
    ['a part without a type', [{ role: 'user', content: [{ text: 'x' }] }], 'messages[0].content'],
    [
      'a second message without a role',
      [{ role: 'user', content: 'x' }, { content: 'y' }],
      'messages[1].role',
    ],
    ['a name that is none', [{ role: 'user', content: 'x', name: 7 }], 'messages[0].name'],
    ['calls that are none', [{ role: 'assistant', tool_calls: 'x' }], 'messages[0].tool_calls'],
  ])('are refused by the place of what is wrong: %s', (_, messages, parameter) => {
    expect(() => checkMessages(messages)).toThrow(
      expect.objectContaining({ parameter, message: expect.stringContaining(parameter) }),
    );
    expect(() => checkMessages(messages)).toThrow(GenerationError);
  });
});
