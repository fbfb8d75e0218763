// Files in conversations, through the routes of a server that keeps them.

import { describe, expect, it } from 'vitest';
import { startBatchServer } from '../../../test/support/batch-server.ts';
import { opened } from '../../../test/support/opened.ts';
import { IN_MEMORY } from '../../store/database.ts';
import { openDatabase } from '../../store/open-database.ts';
import { ResponseStore } from '../../store/response-store.ts';
import type { ConversationItem } from '../responses/items.ts';

const secret = 'The fox is called Ardelia – ü.\n{"a": 1}';
const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64');

async function begin() {
  const database = await openDatabase(IN_MEMORY);
  const responses = new ResponseStore<ConversationItem>(database, { keepMs: 1e9, maxBytes: 1e9 }, () => {});
  opened.push(() => responses.close());
  const server = await startBatchServer({ mine: {}, other: {} }, { responses });
  const upload = async (content: string, purpose = 'user_data') =>
    (await server.upload('mine', content, { purpose })).json<{ id: string }>().id;
  const chat = (part: object, more: object = {}, key: 'mine' | 'other' = 'mine') =>
    server.call(key, 'POST', '/v1/chat/completions', {
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Who?' }, part] }],
      max_tokens: 2,
      verbose: true,
      ...more,
    });
  const respond = (part: object, more: object = {}) =>
    server.call('mine', 'POST', '/v1/responses', {
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'Who?' }, part] }],
      max_output_tokens: 2,
      ...more,
    });
  return { server, upload, chat, respond };
}

describe('a file of a chat', () => {
  it('is text of its message, by its id or sent along, as a data URL or base64 alone', async () => {
    const { upload, chat } = await begin();
    const file_id = await upload(secret);
    for (const file of [
      { file_id },
      { file_data: `data:text/markdown;base64,${base64(secret)}`, filename: 'input.jsonl' },
      { file_data: base64(secret), filename: 'input.jsonl' },
      { file_data: `data:text/plain,${encodeURIComponent(secret)}`, filename: 'input.jsonl' },
    ]) {
      const answer = await chat({ type: 'file', file });
      expect(answer.statusCode, answer.body).toBe(200);
      expect(answer.json().__verbose.prompt).toContain(
        `Who?\n<document title="input.jsonl">\n${secret}\n</document>`,
      );
    }
  });

  it('counts as a part of the prompt everywhere', async () => {
    const { server, upload } = await begin();
    const part = { type: 'file', file: { file_id: await upload(secret) } };
    const messages = [{ role: 'user', content: [part] }];
    const { prompt } = (await server.call('mine', 'POST', '/apply-template', { messages })).json();
    expect(prompt).toContain(secret);
    const counted = await server.call('mine', 'POST', '/v1/chat/completions/input_tokens', { messages });
    const { usage } = (
      await server.call('mine', 'POST', '/v1/chat/completions', { messages, max_tokens: 1 })
    ).json();
    expect(counted.json().input_tokens).toBe(usage.prompt_tokens);
  });

  it.each([
    ['a PDF', { file_data: base64('%PDF-1.7\n…') }, 'is a PDF'],
    ['no UTF-8', { file_data: base64(Buffer.from([0x80, 0x81])) }, 'no text in UTF-8'],
    ['bytes that are no text', { file_data: base64('a\0b') }, 'no text in UTF-8'],
    ['no base64', { file_data: 'a b c!' }, 'must be base64'],
    ['both an id and data', { file_id: 'file-1', file_data: 'YQ==' }, 'either file_id or file_data'],
    ['neither', { filename: 'a' }, 'either file_id or file_data'],
  ])('is refused where it is %s', async (_, file, problem) => {
    const { chat, respond } = await begin();
    const asked = await chat({ type: 'file', file });
    expect([asked.statusCode, asked.json().error.param.split('.')[0]]).toEqual([400, 'messages[0]']);
    expect(asked.json().error.message).toContain(problem);
    const answer = await respond({ type: 'input_file', ...file });
    expect(answer.statusCode).toBe(400);
    expect(answer.json().error.message).toContain(problem);
  });

  it('is nobody else’s, and none of another purpose', async () => {
    const { upload, chat } = await begin();
    const file_id = await upload(secret);
    expect((await chat({ type: 'file', file: { file_id } }, {}, 'other')).statusCode).toBe(404);
    expect((await chat({ type: 'file', file: { file_id: 'file-x' } })).json().error.code).toBe(
      'file_not_found',
    );
    const lines = await upload('{}', 'batch');
    expect((await chat({ type: 'file', file: { file_id: lines } })).json().error.message).toContain(
      'user_data',
    );
    expect((await chat({ type: 'file', file: 'a.txt' })).statusCode).toBe(400);
  });
});

describe('a file of a response', () => {
  it('is kept as the text that it was, so that the conversation goes on without it', async () => {
    const { server, upload, respond } = await begin();
    const file_id = await upload(secret);
    const first = await respond({ type: 'input_file', file_id });
    expect(first.statusCode, first.body).toBe(200);
    const { id, usage } = first.json();
    const items = (await server.call('mine', 'GET', `/v1/responses/${id}/input_items`)).json();
    expect(JSON.stringify(items)).toContain('Ardelia');
    await server.call('mine', 'DELETE', `/v1/files/${file_id}`);
    const more = { input: 'And then?', previous_response_id: id, max_output_tokens: 2 };
    const second = (await server.call('mine', 'POST', '/v1/responses', more)).json();
    expect(second.usage.input_tokens).toBeGreaterThan(usage.input_tokens);
  });

  it('is never fetched from elsewhere', async () => {
    const { respond } = await begin();
    const refused = await respond({ type: 'input_file', file_url: 'https://example.com/a.txt' });
    expect(refused.json().error).toMatchObject({ param: 'input[0].content[1].file_url' });
  });
});
