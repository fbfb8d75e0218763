import { describe, expect, it } from 'vitest';
import { sharedServer } from '../../../test/support/keyed-server.ts';
import { truncated } from './truncation.ts';

type Body = Parameters<typeof truncated>[0];

const { post } = sharedServer();
/** A token a message. */
const count = async ({ messages }: Body) => messages.length;
const user = (content: string) => ({ role: 'user' as const, content });
const call = { role: 'assistant' as const, content: '', tool_calls: [{ id: 'a' }] };
const result = { role: 'tool' as const, tool_call_id: 'a', content: 'x' };
const system = { role: 'system' as const, content: 's' };
const cut = async (messages: Body['messages'], tokens: number) =>
  (await truncated({ messages, max_completion_tokens: 1 }, { count, tokens })).messages;

describe('a conversation that is too long', () => {
  it('loses as few of its oldest messages as it must, and never the system message', async () => {
    const talk = [system, user('1'), user('2'), user('3'), user('4')];
    expect(await cut(talk, 6)).toEqual(talk);
    expect(await cut(talk, 5)).toEqual([system, user('2'), user('3'), user('4')]);
    expect(await cut(talk, 3)).toEqual([system, user('4')]);
  });

  it('keeps no result without its call, and its last turn whole', async () => {
    expect(await cut([user('1'), call, result, user('2')], 4)).toEqual([call, result, user('2')]);
    expect(await cut([user('1'), call, result, user('2')], 3)).toEqual([user('2')]);
    const turn = [user('2'), call, result];
    expect(await cut([user('1'), ...turn], 1)).toEqual(turn);
  });

  it('is answered with truncation auto, and refused without', async () => {
    const input = Array.from({ length: 60 }, (_, n) => ({
      role: 'user',
      content: `${n} ${'word '.repeat(100)}`,
    }));
    const asked = {
      input: [...input, { role: 'user', content: 'Hello, who are you?' }],
      max_output_tokens: 20,
    };
    const refused = await post('/v1/responses', asked);
    expect(refused.json().error).toMatchObject({ code: 'context_length_exceeded', param: 'input' });
    const answered = await post('/v1/responses', { ...asked, truncation: 'auto' });
    expect(answered.statusCode, answered.body).toBe(200);
    const { usage, truncation } = answered.json();
    expect(truncation).toBe('auto');
    // Another message would have been too much.
    expect(usage.input_tokens).toBeGreaterThan(4096 - 20 - 130);
    expect(usage.input_tokens).toBeLessThanOrEqual(4096 - 20);
  });
});
