// What clients of other servers count on, through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { messages, sharedServer, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { TestServer } from '../../../test/support/test-server.ts';
import { completionAnswerSchema } from '../llama-server/answers.ts';
import { chatAnswerSchema, errorSchema, textAnswerSchema } from './schemas/answers.ts';

const shared = sharedServer();
const { post, answer } = shared;
const chat = async (body: object) =>
  chatAnswerSchema.parse(await answer('/v1/chat/completions', { messages, temperature: 0, ...body }));

async function refusal(url: string, body: object) {
  const response = await post(url, body);
  return { status: response.statusCode, ...errorSchema.parse(response.json()).error };
}

describe('the end of a prompt', () => {
  it('lies within the last message where that is continued, so that the answer is its rest', async () => {
    const whole = (await chat({})).choices[0]?.message.content ?? '';
    const begun = whole.slice(0, whole.indexOf(' ', 4));
    const conversation = [...messages, { role: 'assistant', content: begun }];
    const answer = await chat({ messages: conversation, continue_final_message: true });
    expect(`${begun}${answer.choices[0]?.message.content}`).toBe(whole);
    const options = { continue_final_message: true, add_generation_prompt: false };
    expect((await chat({ messages: conversation, ...options })).choices).toEqual(answer.choices);
  });

  it('lies there by itself where the last message is the assistant’s, unless a new answer is asked for', async () => {
    const begun = [...messages, { role: 'assistant', content: 'I am' }];
    const apply = async (body: object) =>
      ((await answer('/apply-template', { messages: begun, ...body })) as { prompt: string }).prompt;
    expect(await apply({})).toMatch(/assistant\nI am$/);
    expect(await apply({ add_generation_prompt: true })).toMatch(
      /I am<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
    expect(await apply({ continue_final_message: false })).toMatch(
      /I am<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
    const calls = [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }];
    const called = [...messages, { role: 'assistant', content: 'I am', tool_calls: calls }];
    expect(await apply({ messages: called })).toMatch(/<\|im_start\|>assistant\n$/);
    const { choices } = await chat({ messages: begun });
    expect(choices).toEqual((await chat({ messages: begun, continue_final_message: true })).choices);
  });

  it('is no start of an answer where none is wanted', async () => {
    const { usage } = await chat({ max_tokens: 1 });
    const ended = await chat({ max_tokens: 1, add_generation_prompt: false });
    expect(ended.usage.prompt_tokens).toBeLessThan(usage.prompt_tokens);
  });

  it.each([
    [{}, "the last message is not the assistant's"],
    [{ add_generation_prompt: true }, 'contradicts add_generation_prompt'],
  ])('is refused where it cannot be: %j', async (body, problem) => {
    const error = await refusal('/v1/chat/completions', { messages, continue_final_message: true, ...body });
    expect(error).toMatchObject({ status: 400, param: 'continue_final_message' });
    expect(error.message).toContain(problem);
  });
});

describe('a prediction of the answer', () => {
  const story = { messages: [{ role: 'user', content: 'Tell me a story about a fox.' }], max_tokens: 120 };

  it('changes nothing but how soon it comes, right or wrong', async () => {
    const plain = await chat(story);
    const text = plain.choices[0]?.message.content ?? '';
    for (const content of [text, [{ type: 'text', text }], 'Nothing of the kind.', '']) {
      const predicted = await chat({ ...story, prediction: { type: 'content', content } });
      expect(predicted.choices).toEqual(plain.choices);
      expect(predicted.usage.completion_tokens).toBe(plain.usage.completion_tokens);
    }
    const { usage } = await chat({ ...story, prediction: { type: 'content', content: text } });
    const { accepted_prediction_tokens: accepted } = usage.completion_tokens_details;
    expect(accepted).toBeLessThanOrEqual(usage.completion_tokens);
  });

  it.each([
    [{ type: 'other', content: 'x' }],
    [{ type: 'content' }],
    ['x'],
    [{ type: 'content', content: [1] }],
  ])('is refused where it is none: %j', async (prediction) => {
    const error = await refusal('/v1/chat/completions', { messages, prediction });
    expect(error).toMatchObject({ status: 400, param: expect.stringContaining('prediction') });
  });
});

describe('a text completion of no token', () => {
  const body = { prompt: ['Once upon', 'a time'], max_tokens: 0 };

  it('is empty, or its prompt where that is to be echoed, and costs the prompt', async () => {
    const empty = (await post('/v1/completions', body)).json();
    expect(empty.choices.map(({ text, finish_reason: reason }: never) => [text, reason])).toEqual([
      ['', 'length'],
      ['', 'length'],
    ]);
    const { usage } = (await post('/v1/completions', { ...body, max_tokens: 1 })).json();
    const { prompt_tokens: prompt } = usage;
    expect(empty.usage).toMatchObject({ prompt_tokens: prompt, completion_tokens: 0, total_tokens: prompt });
    const echoed = (await post('/v1/completions', { ...body, echo: true })).json();
    expect(echoed.choices.map(({ text }: { text: string }) => text)).toEqual(body.prompt);
    const stream = await post('/v1/completions', { ...body, stream: true, echo: true });
    expect(stream.body).toContain('"text":"Once upon"');
    expect(stream.body).toContain('"finish_reason":"length"');
    expect(stream.body).toContain('[DONE]');
  });

  it('contradicts a least number, and is nothing for a chat', async () => {
    const few = await refusal('/v1/completions', { ...body, min_tokens: 1 });
    expect(few).toMatchObject({ status: 400, param: 'max_tokens' });
    const none = await refusal('/v1/chat/completions', { messages, max_tokens: 0 });
    expect(none).toMatchObject({ status: 400, param: 'max_tokens' });
  });
});

describe('a body', () => {
  it.each([
    ['of no type', undefined],
    ['called plain text', 'text/plain'],
    ['called a form, as by curl -d', 'application/x-www-form-urlencoded'],
    ['called a form with parts', 'multipart/form-data; boundary=x'],
    ['of a type that is none', 'json'],
  ])('%s is read as JSON', async (_, type) => {
    const payload = Buffer.from(JSON.stringify({ messages, max_tokens: 1 }));
    for (const url of ['/v1/chat/completions', '/v1/messages', '/api/chat']) {
      const response = await shared.server.app.inject({
        method: 'POST',
        url,
        headers: type === undefined ? {} : { 'content-type': type },
        payload: url.startsWith('/api') ? payload.toString().replace('{', '{"model":"demo",') : payload,
      });
      expect(response.statusCode, response.body).toBe(200);
    }
  });
});

describe('an empty body called JSON', () => {
  const headers = { 'content-type': 'application/json' };

  it('reaches the route it is for', async () => {
    const { call, secrets, server: keyed } = await startWithKeys({ boss: { admin: true }, guest: {} });
    const made = (await call(secrets.boss, '/admin/keys', { name: 'other' })).json();
    const revoked = await keyed.app.inject({
      method: 'DELETE',
      url: `/admin/keys/${made.id}`,
      headers: { ...headers, authorization: `Bearer ${secrets.boss}` },
    });
    expect(revoked.statusCode).toBe(200);
    const asked = await shared.server.app.inject({ method: 'POST', url: '/v1/chat/completions', headers });
    expect(asked.statusCode).toBe(400);
    expect(asked.json().error.message).toContain('must be a JSON object');
  });

  it.each(['', '{', 'x'.repeat(100)])('to nowhere is a 404, and so is any other: %j', async (payload) => {
    const answer = await shared.server.app.inject({ method: 'POST', url: '/nowhere', headers, payload });
    expect(answer.statusCode).toBe(404);
    expect(answer.json().error.code).toBe('unknown_url');
    const strange = { 'content-type': 'text/plain' };
    const other = await shared.server.app.inject({
      method: 'PUT',
      url: '/v1/models',
      headers: strange,
      payload,
    });
    expect(other.statusCode).toBe(404);
  });
});

describe('a path without /v1', () => {
  it('is the one with it, for every route there is', async () => {
    const paths = Object.keys((await shared.server.app.inject('/openapi.json')).json().paths);
    const prefixed = paths.filter((path) => path.startsWith('/v1/'));
    expect(prefixed).toContain('/v1/chat/completions');
    for (const path of prefixed) {
      for (const method of ['GET', 'POST'] as const) {
        const status = async (url: string) => (await shared.server.app.inject({ method, url })).statusCode;
        expect([path, await status(path.slice(3))]).toEqual([path, await status(path)]);
      }
    }
    const answer = await post('/chat/completions', { messages, max_tokens: 1 });
    expect(chatAnswerSchema.parse(answer.json()).usage.completion_tokens).toBe(1);
    expect((await shared.server.app.inject('/models/demo')).json().id).toBe('demo');
  });

  it('needs a key where the one with it does', async () => {
    const { call, secrets } = await startWithKeys({ mine: {} });
    expect((await call(undefined, '/models')).statusCode).toBe(401);
    expect((await call(undefined, '/completions', { prompt: 'a' })).statusCode).toBe(401);
    expect((await call(secrets.mine, '/models')).statusCode).toBe(200);
  });
});

describe('what templates know of thinking', () => {
  const template = `{{ enable_thinking if enable_thinking is defined else 'untold' }}|{{ messages[0].content }}`;
  const told = async (settings: object, body: object = {}) => {
    const { app } = await start({ settings, pool: { template } });
    return (
      await app.inject({ method: 'POST', url: '/apply-template', payload: { messages, ...body } })
    ).json().prompt;
  };

  it('is what a request says, else the setting, else nothing', async () => {
    expect(await told({})).toMatch(/^untold/);
    expect(await told({ thinking: true })).toMatch(/^true/i);
    expect(await told({ thinking: true }, { enable_thinking: false })).toMatch(/^false/i);
    expect(await told({ thinking: true }, { reasoning_effort: 'none' })).toMatch(/^false/i);
    expect(await told({}, { chat_template_kwargs: { enable_thinking: true } })).toMatch(/^true/i);
  });
});

describe('the template of a model', () => {
  it('says how long the prompt of a chat is', async () => {
    const counted = (await answer('/v1/chat/completions/input_tokens', { messages })) as {
      input_tokens: number;
    };
    const { usage } = await chat({ max_tokens: 1 });
    expect(counted.input_tokens).toBe(usage.prompt_tokens);
  });

  it('can be applied without an answer', async () => {
    const apply = async (body: object) => (await post('/apply-template', body)).json().prompt as string;
    const whole = await apply({ messages, temperature: 0 });
    expect(whole).toMatch(/<\|im_start\|>user\nHello, who are you\?<\|im_end\|>\n<\|im_start\|>assistant\n$/);
    const { tokens } = (await post('/tokenize', { messages })).json();
    expect((await post('/detokenize', { tokens })).json().prompt).toBe(whole);
    expect(await apply({ messages, add_generation_prompt: false })).toMatch(/<\|im_end\|>\n$/);
    const begun = [...messages, { role: 'assistant', content: 'I am' }];
    expect(await apply({ messages: begun, continue_final_message: true })).toMatch(/assistant\nI am$/);
  });

  it('is refused what a chat is refused', async () => {
    const image = [{ role: 'user', content: [{ type: 'image_url' }] }];
    for (const body of [{}, { messages: [] }, { messages: image }, { messages, model: 'plain' }]) {
      const { status, param, code } = await refusal('/v1/chat/completions', body);
      expect(await refusal('/apply-template', body)).toMatchObject({ status, param, code });
    }
  });
});

describe('what a request does not say of sampling', () => {
  const sample = async ({ app }: Pick<TestServer, 'app'>, body: object = {}) => {
    const payload = { messages, max_tokens: 8, seed: 1, ...body };
    return (await app.inject({ method: 'POST', url: '/v1/chat/completions', payload })).json().choices;
  };
  const defaultsOf = async ({ app }: Pick<TestServer, 'app'>) =>
    (await app.inject('/v1/models/demo')).json().default_parameters;
  const sampling = { temperature: 0, topP: 0.5 };

  it('is as the server is set, and the request wins where it says something', async () => {
    const set = await start({ settings: { samplingDefaults: { temperature: 0 } } });
    expect(await sample(set)).toEqual(await sample(shared.server, { temperature: 0 }));
    expect(await sample(set, { temperature: 1.5 })).toEqual(
      await sample(shared.server, { temperature: 1.5 }),
    );
    expect(await defaultsOf(set)).toEqual({ temperature: 0 });
    expect(await defaultsOf(shared.server)).toEqual({});
  });

  it('is else as the model’s files say, unless they are not asked', async () => {
    const recommended = await start({ pool: { sampling } });
    expect(await sample(recommended)).toEqual(await sample(shared.server, { temperature: 0 }));
    expect(await defaultsOf(recommended)).toEqual({ temperature: 0, top_p: 0.5 });
    const samplingDefaults = { temperature: 1 };
    const both = await start({ pool: { sampling }, settings: { samplingDefaults } });
    expect(await defaultsOf(both)).toEqual({ temperature: 1, top_p: 0.5 });
    const deaf = await start({ pool: { sampling }, settings: { useModelSampling: false } });
    expect(await defaultsOf(deaf)).toEqual({});
    expect(await sample(deaf)).toEqual(await sample(shared.server));
  });
});

describe('a gap in a text', () => {
  // The embedded model knows no gaps; any tokens will do to see where they go.
  const marks = { prefix: 300, suffix: 301, middle: 302, repository: undefined, file: undefined };
  const pool = { fillInMiddle: { ...marks, endIds: [300, 301, 302] } };
  const body = { prompt: 'Once upon', suffix: 'the end.', max_tokens: 3, temperature: 0 };

  it('is filled with what the model says to the same tokens', async () => {
    const { app } = await start({ pool });
    const ask = async (url: string, payload: object) =>
      (await app.inject({ method: 'POST', url, payload })).json();
    const encoded = async (prompt: string): Promise<number[]> => (await ask('/tokenize', { prompt })).tokens;
    const before = await encoded(body.prompt);
    const behind = await encoded(body.suffix);
    const ids = [300, ...before, 301, ...behind, 302];
    const { choices } = await ask('/v1/completions', { prompt: ids, max_tokens: 3, temperature: 0 });
    const filled = await ask('/v1/completions', body);
    expect(filled.choices[0].text).toBe(choices[0].text);
    expect(filled.usage.prompt_tokens).toBe(ids.length);
    expect((await ask('/v1/completions', { ...body, echo: true })).choices[0].text).toBe(
      `Once upon${choices[0].text}`,
    );
    const gap = { input_prefix: body.prompt, input_suffix: body.suffix, n_predict: 3, temperature: 0 };
    const infilled = completionAnswerSchema.parse(await ask('/infill', gap));
    expect(infilled).toMatchObject({ content: choices[0].text, stop_type: 'limit', tokens_predicted: 3 });
    const stream = await app.inject({ method: 'POST', url: '/infill', payload: { ...gap, stream: true } });
    const pieces = stream.body
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => completionAnswerSchema.parse(JSON.parse(line.slice(6))));
    expect(pieces.map(({ content }) => content).join('')).toBe(choices[0].text);
    expect(pieces.at(-1)?.stop).toBe(true);
  });

  it('is refused where the model knows none, or the prompt is no text', async () => {
    const unknown = await refusal('/v1/completions', body);
    expect(unknown).toMatchObject({ status: 400, param: 'suffix' });
    expect(unknown.message).toContain('filling in the middle');
    const infill = await refusal('/infill', { input_prefix: 'a', input_suffix: 'b' });
    expect(infill).toMatchObject({ status: 400, param: 'input_suffix' });
    expect(await refusal('/v1/completions', { ...body, prompt: [1, 2] })).toMatchObject({ param: 'suffix' });
  });
});

describe('a service tier', () => {
  it('is returned to requests that name one, whole and in a stream', async () => {
    const tier = { service_tier: 'auto', max_tokens: 1 };
    expect((await chat(tier)).service_tier).toBe('default');
    expect(await chat({ max_tokens: 1 })).not.toHaveProperty('service_tier');
    const stream = await post('/v1/chat/completions', { messages, ...tier, stream: true });
    expect(stream.body).toContain('"service_tier":"default"');
    expect(stream.headers).not.toHaveProperty('x-chairlift-warning');
    const text = (await post('/v1/completions', { prompt: 'Once', ...tier })).json();
    expect(textAnswerSchema.parse(text).service_tier).toBe('default');
  });
});
