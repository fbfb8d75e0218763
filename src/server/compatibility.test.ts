// What clients of other servers count on, through the whole server with the embedded model.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestServer, testServer } from '../../test/support/test-server.ts';
import { chatAnswerSchema, errorSchema } from './schemas/answers.ts';

const messages = [{ role: 'user', content: 'Hello, who are you?' }];

let server: TestServer;
beforeAll(async () => {
  server = await testServer();
});
afterAll(() => server.close());
beforeEach(() => expect(server.pool.leases).toBe(0));

async function post(url: string, payload: object) {
  return server.app.inject({ method: 'POST', url, payload });
}

async function chat(body: object) {
  const response = await post('/v1/chat/completions', { messages, temperature: 0, ...body });
  if (response.statusCode !== 200) throw new Error(response.body);
  return chatAnswerSchema.parse(response.json());
}

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
