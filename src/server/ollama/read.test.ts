import { describe, expect, it } from 'vitest';
import { chatPrompt } from '../../generation/chat-prompt.ts';
import { chatTemplate } from '../../text/chat-template.ts';
import { parseBody } from '../http/parse-body.ts';
import type { Caller } from '../request/auth.ts';
import { durationMs, idleMsOf } from './keep-alive.ts';
import { readChat, readGenerate, readMessages, readRaw } from './read.ts';
import { type ChatGiven, chatRules, type GenerateGiven, generateRules } from './schema.ts';

const chat = (given: object): ChatGiven => parseBody(chatRules, { model: 'm', ...given }).body;
const generate = (given: object): GenerateGiven => parseBody(generateRules, { model: 'm', ...given }).body;
const messages = [{ role: 'user', content: 'Hi' }];

describe('a body of Ollama, in the words of OpenAI', () => {
  it.each<[string, object, object]>([
    ['streams by default', {}, { stream: true }],
    ['does not where it is told', { stream: false }, { stream: false }],
    [
      'samples as told',
      { options: { temperature: 0, top_k: 3, top_p: 0.5 } },
      { temperature: 0, top_k: 3, top_p: 0.5 },
    ],
    ['samples as told, rarely', { options: { min_p: 0.1, typical_p: 0.9 } }, { min_p: 0.1, typical_p: 0.9 }],
    ['penalizes', { options: { repeat_penalty: 1.2 } }, { repetition_penalty: 1.2 }],
    [
      'penalizes the last tokens',
      { options: { repeat_last_n: 64, repeat_penalty: 1.1 } },
      { repeat_last_n: 64, repetition_penalty: 1.1 },
    ],
    [
      'holds surprise',
      { options: { mirostat: 2, mirostat_tau: 3, mirostat_eta: 0.2 } },
      { mirostat: 2, mirostat_tau: 3, mirostat_eta: 0.2 },
    ],
    ['penalizes otherwise', { options: { presence_penalty: 1 } }, { presence_penalty: 1 }],
    ['ends', { options: { num_predict: 9, stop: ['x'] } }, { max_tokens: 9, stop: ['x'] }],
    ['ends where the model ends', { options: { num_predict: -1 } }, { max_tokens: undefined }],
    ['fills the context', { options: { num_predict: -2 } }, { max_tokens: undefined }],
    ['has a seed', { options: { seed: 5 } }, { seed: 5 }],
    ['has none', { options: { seed: -1 } }, { seed: undefined }],
    ['leaves nothing of null', { options: { temperature: null } }, { temperature: undefined }],
    ['is JSON', { format: 'json' }, { response_format: { type: 'json_object' } }],
    ['is free', { format: '' }, { response_format: undefined }],
    [
      'follows a schema',
      { format: { type: 'array' } },
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'array' } } } },
    ],
    ['thinks', { think: true }, { chat_template_kwargs: { enable_thinking: true, thinking: true } }],
    [
      'does not think',
      { think: false },
      { chat_template_kwargs: { enable_thinking: false, thinking: false } },
    ],
    [
      'thinks briefly',
      { think: 'low' },
      { chat_template_kwargs: { enable_thinking: true, thinking: true, reasoning_effort: 'low' } },
    ],
    ['thinks its own way', {}, { chat_template_kwargs: undefined }],
  ])('%s', (_promise, given, expected) => {
    const whole = { model: 'known', ...expected };
    expect(readChat(chat({ messages, ...given }), 'known')).toEqual(expect.objectContaining(defined(whole)));
    expect(readGenerate(generate({ prompt: 'Hi', ...given }), 'known')).toMatchObject(defined(whole));
    for (const name of absent(whole)) {
      expect(readChat(chat({ messages, ...given }), 'known')[name as 'seed']).toBeUndefined();
    }
  });

  it.each<[object, string]>([
    [{ mirostat: 'on' }, 'options.mirostat'],
    [{ tfs_z: 0.5 }, 'options.tfs_z'],
    [{ penalize_newline: false, repeat_penalty: 1.1 }, 'options.penalize_newline'],
    [{ temperature: 'hot' }, 'options.temperature'],
    [{ num_ctx: 0 }, 'options.num_ctx'],
  ])('options %j are refused by name', (options, param) => {
    expect(() => chat({ messages, options })).toThrow(expect.objectContaining({ status: 400, param }));
  });

  it('takes what is neutral, and names what it does not know', () => {
    const options = { tfs_z: 1, penalize_newline: false, num_gpu: 1, odd: 1 };
    const { unknown } = parseBody(chatRules, { model: 'm', messages, options, strange: 1, truncate: true });
    expect(unknown).toEqual(['strange', 'options.odd']);
  });

  it('makes a chat of a prompt, or takes it raw', () => {
    const given = generate({ prompt: 'Hi', system: 'Be brief.' });
    expect(readGenerate(given, 'm').messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ]);
    const raw = generate({ prompt: 'Hi', raw: true, logprobs: true, top_logprobs: 2 });
    expect(readRaw(raw, 'm')).toMatchObject({ prompt: 'Hi', logprobs: 2 });
    expect(() => readRaw(generate({ prompt: 'Hi', raw: true, think: true }), 'm')).toThrow(/^think: /);
  });

  it('fills a gap where there is a suffix, without a template', () => {
    expect(readRaw(generate({ prompt: 'a', suffix: 'c' }), 'm')).toMatchObject({ prompt: 'a', suffix: 'c' });
    const together = (more: object) => () => readRaw(generate({ prompt: 'a', suffix: 'c', ...more }), 'm');
    expect(together({ system: 'x' })).toThrow(/^system: .* with suffix/);
    expect(together({ think: true })).toThrow(/^think: .* with suffix/);
  });

  it('goes on with what the assistant has begun, and not with its calls', () => {
    const begun = (last: object) =>
      readChat(chat({ messages: [...messages, { role: 'assistant', ...last }] }), 'm').continue_final_message;
    expect(begun({ content: 'Once' })).toBe(true);
    expect(begun({ content: '' })).toBeUndefined();
    const tool_calls = [{ function: { name: 'a', arguments: {} } }];
    expect(begun({ content: 'Once', tool_calls })).toBeUndefined();
    expect(readChat(chat({ messages }), 'm').continue_final_message).toBeUndefined();
  });
});

describe('messages of Ollama', () => {
  const call = (name: string) => ({ function: { name, arguments: { city: 'Oslo' } } });

  it('give calls ids, and each result the one of its call', () => {
    const read = readMessages([
      { role: 'assistant', tool_calls: [call('a'), call('b'), call('a')] },
      { role: 'tool', tool_name: 'b', content: '1' },
      { role: 'tool', tool_name: 'a', content: '2' },
      { role: 'tool', content: '3' },
      { role: 'tool', tool_call_id: 'mine', content: '4' },
    ]);
    const [first, ...results] = read;
    expect(first).toMatchObject({ content: '' });
    expect(first?.tool_calls?.map(({ id }) => id)).toEqual(['call00001', 'call00002', 'call00003']);
    expect(results).toMatchObject([
      { name: 'b', tool_call_id: 'call00002' },
      { name: 'a', tool_call_id: 'call00001' },
      { name: 'a', tool_call_id: 'call00003' },
      { tool_call_id: 'mine' },
    ]);
  });

  it('reach templates with their arguments as objects and their thoughts', () => {
    const template = chatTemplate({
      template:
        '{% for m in messages %}{{ m.reasoning_content }}{% for c in m.tool_calls %}{{ c.function.arguments.city }}{% endfor %}{% endfor %}',
      specialTokens: {},
    });
    const read = readMessages([{ role: 'assistant', thinking: 'Hm. ', tool_calls: [call('a')] }]);
    expect(chatPrompt({ name: 'm', template }, { messages: read })).toBe('Hm. Oslo');
  });

  it('have images before their text', () => {
    expect(readMessages([{ role: 'user', content: 'x', images: ['aGk='] }])).toMatchObject([
      {
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } },
          { type: 'text', text: 'x' },
        ],
      },
    ]);
    expect(readMessages([{ role: 'user', content: 'x', images: [] }])).toEqual([
      { role: 'user', content: 'x' },
    ]);
  });
});

describe('how long a model stays', () => {
  const forEver = Number.POSITIVE_INFINITY;
  it.each<[number | string, number]>([
    [0, 0],
    ['0', 0],
    ['0s', 0],
    [300, 300_000],
    ['300', 300_000],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['1.5s', 1500],
    ['250ms', 250],
    [-1, forEver],
    ['-1', forEver],
    ['-1m', forEver],
  ])('%j is %d ms', (given, expected) => expect(durationMs(given)).toBe(expected));

  it.each(['', 'soon', '5 minutes', '5m!', 'm', '-'])('%j is nothing', (given) => {
    expect(() => durationMs(given)).toThrow(expect.objectContaining({ param: 'keep_alive' }));
  });

  it('is for administrators to say, and for every caller where there are no keys', () => {
    const caller = (keyId: string, admin: boolean): Caller => ({ keyId, admin, tier: 'normal', limits: {} });
    expect(idleMsOf('5m', caller('key_1', false))).toBeUndefined();
    expect(idleMsOf('5m', caller('key_1', true))).toBe(300_000);
    expect(idleMsOf('5m', caller('anonymous', false))).toBe(300_000);
    expect(idleMsOf(undefined, caller('key_1', true))).toBeUndefined();
  });
});

function defined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function absent(fields: Record<string, unknown>): string[] {
  return Object.keys(fields).filter((name) => fields[name] === undefined);
}
