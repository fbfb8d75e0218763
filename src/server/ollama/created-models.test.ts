// Models made by /api/create and /api/copy, `context` and verbose shows, through the whole server with the embedded model.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { sharedServer, start } from '../../../test/support/keyed-server.ts';
import type { Hub } from '../../pool/hub.ts';
import { CreatedModels } from './created-models.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-created-'));
  folders.push(folder);
  return folder;
}

/** The folder itself is not there yet. */
async function begin(folder = join(newFolder(), 'models')) {
  const { app } = await start({ downloads: { folder, hub: {} as Hub } });
  const post = async (url: string, payload: object, method: 'POST' | 'DELETE' = 'POST') =>
    app.inject({ method, url, payload });
  const chat = async (model: string, more: object = {}) => {
    const messages = [{ role: 'user', content: 'Hello, who are you?' }];
    const body = { model, messages, stream: false, options: { temperature: 0 }, ...more };
    return (await post('/api/chat', body)).json();
  };
  return { post, chat, folder, app };
}

const cold = { temperature: 0, num_predict: 5 };

describe('a created model', () => {
  it('answers as its base does with what it sets, which a request may change', async () => {
    const { post, chat } = await begin();
    const made = await post('/api/create', {
      model: 'mario',
      from: 'demo',
      system: 'Be Mario.',
      parameters: cold,
    });
    expect([made.statusCode, made.body.trim()]).toEqual([200, '{"status":"success"}']);
    const system = { role: 'system', content: 'Be Mario.' };
    const user = { role: 'user', content: 'Hello, who are you?' };
    const base = await chat('demo', { messages: [system, user], options: cold });
    const created = await chat('mario:latest', { options: {} });
    expect(created.message).toEqual(base.message);
    expect([created.eval_count, created.prompt_eval_count]).toEqual([5, base.prompt_eval_count]);
    expect((await chat('mario', { options: { num_predict: 2 } })).eval_count).toBe(2);
    const own = await chat('mario', { messages: [{ ...system, content: 'Be Luigi.' }, user] });
    const luigi = await chat('demo', {
      messages: [{ ...system, content: 'Be Luigi.' }, user],
      options: cold,
    });
    expect(own.prompt_eval_count).toBe(luigi.prompt_eval_count);
    const generated = { model: 'mario', prompt: user.content, stream: false };
    expect((await post('/api/generate', generated)).json().response).toBe(base.message.content);
  });

  it('begins every conversation with its messages, and may be made of another', async () => {
    const { post, chat } = await begin();
    const messages = [
      { role: 'user', content: 'What is 3 + 4?' },
      { role: 'assistant', content: '7' },
    ];
    await post('/api/create', { model: 'one', from: 'demo', messages, parameters: cold });
    await post('/api/create', { model: 'two', from: 'one', parameters: { num_predict: 3 } });
    const user = { role: 'user', content: 'Hello, who are you?' };
    const base = await chat('demo', { messages: [...messages, user], options: { ...cold, num_predict: 3 } });
    const two = await chat('two', { options: {} });
    expect([two.message, two.prompt_eval_count]).toEqual([base.message, base.prompt_eval_count]);
  });

  it('is listed, shown as a Modelfile, copied, kept over a restart, and deleted without its base', async () => {
    const { post, folder, app } = await begin();
    const parameters = { stop: ['a', 'b'], temperature: 0 };
    await post('/api/create', {
      model: 'one',
      from: 'demo',
      system: 'S',
      parameters,
      license: 'MIT',
      stream: false,
    });
    expect((await post('/api/copy', { source: 'one', destination: 'two' })).statusCode).toBe(200);
    expect((await post('/api/copy', { source: 'demo', destination: 'three' })).statusCode).toBe(200);
    const names = async () =>
      (await app.inject('/api/tags')).json().models.map(({ name }: { name: string }) => name);
    expect(await names()).toEqual(expect.arrayContaining(['demo', 'one', 'two', 'three']));
    const shown = (await post('/api/show', { model: 'two' })).json();
    expect(shown.modelfile).toBe(
      'FROM demo\nSYSTEM """S"""\nPARAMETER stop "a"\nPARAMETER stop "b"\nPARAMETER temperature 0\nLICENSE """MIT"""\n',
    );
    expect(shown).toMatchObject({ system: 'S', license: 'MIT', details: { parent_model: 'demo' } });
    const again = await begin(folder);
    expect((await again.chat('two')).done).toBe(true);
    expect((await again.post('/api/delete', { model: 'two' }, 'DELETE')).statusCode).toBe(200);
    expect((await again.post('/api/show', { model: 'two' })).statusCode).toBe(404);
    expect((await again.chat('demo')).done).toBe(true);
    expect(readFileSync(join(folder, 'ollama-models.json'), 'utf8')).not.toContain('"two"');
  });

  it.each([
    [{ model: 'x' }, 400, /^from: is missing/],
    [{ model: 'x', from: 'nope' }, 404, /nope/],
    [{ model: 'demo', from: 'demo' }, 409, /name of a model that is served/],
    [{ model: 'x', from: 'demo', parameters: { temprature: 1 } }, 400, /parameters.temprature/],
    [{ model: 'x', from: 'demo', parameters: { temperature: 'warm' } }, 400, /parameters.temperature/],
    [{ model: 'x', from: 'demo', template: '{{ .Prompt' }, 400, /^template: an action is not closed/],
    [{ model: 'x', from: 'demo', adapters: { a: 'sha256:1' } }, 400, /--adapter/],
  ])('of %j is refused', async (body, status, message) => {
    const { post } = await begin();
    const refused = await post('/api/create', body);
    expect([refused.statusCode, refused.json().error]).toEqual([status, expect.stringMatching(message)]);
  });

  it('is asked by a template of its own, as is a single request, with the same prompt as the model’s own', async () => {
    const { post, chat } = await begin();
    const template =
      '{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}<|im_end|>\n';
    await post('/api/create', { model: 'mine', from: 'demo', template });
    const messages = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'My name is Nora.' },
      { role: 'assistant', content: 'Hello, Nora.' },
      { role: 'user', content: 'What is my name?' },
    ];
    const own = await chat('demo', { messages });
    const mine = await chat('mine', { messages });
    expect([mine.message, mine.prompt_eval_count]).toEqual([own.message, own.prompt_eval_count]);
    const ask = { model: 'demo', prompt: 'Hello, who are you?', options: { temperature: 0 }, stream: false };
    const plain = (await post('/api/generate', ask)).json();
    const templated = (await post('/api/generate', { ...ask, template })).json();
    expect([templated.response, templated.prompt_eval_count]).toEqual([
      plain.response,
      plain.prompt_eval_count,
    ]);
    const shout = (
      await post('/api/generate', { ...ask, template: 'Once upon {{ .Prompt }}', prompt: 'a' })
    ).json();
    expect(shout.prompt_eval_count).toBeLessThan(plain.prompt_eval_count);
    const tools = [{ type: 'function', function: { name: 'f' } }];
    expect((await chat('mine', { messages, tools })).error).toMatch(
      /^tools: are not possible with a template/,
    );
  });

  it('needs a file that can be read', () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'ollama-models.json'), '[{]');
    expect(() => new CreatedModels(folder)).toThrow(/mend or remove it/);
  });
});

describe('without a models folder', () => {
  const { post } = sharedServer();

  it('no model is made', async () => {
    expect((await post('/api/create', { model: 'x', from: 'demo' })).statusCode).toBe(501);
  });

  it('a prompt goes on from the context of an answer, whole and streamed', async () => {
    const ask = { model: 'demo', prompt: 'My name is Nora.', options: { temperature: 0 } };
    const first = (await post('/api/generate', { ...ask, stream: false })).json();
    const streamed = (await post('/api/generate', ask)).body.trim().split('\n').at(-1) ?? '';
    expect(JSON.parse(streamed).context).toEqual(first.context);
    const next = { ...ask, prompt: 'What is my name?', stream: false };
    const answered = (await post('/api/generate', { ...next, context: first.context })).json();
    expect(answered.response).toContain('Nora');
    // The same conversation, said at once.
    const messages = [
      { role: 'user', content: ask.prompt },
      { role: 'assistant', content: first.response },
      { role: 'user', content: next.prompt },
    ];
    const talked = (await post('/api/chat', { ...next, messages })).json();
    expect(talked.message.content).toBe(answered.response);
    const wrong = await post('/api/generate', { ...next, context: [1, 9_999_999] });
    expect([wrong.statusCode, wrong.json().error]).toEqual([400, expect.stringContaining('context')]);
  });

  it('a model is shown with its vocabulary and tensors where that is asked', async () => {
    const shown = async (verbose: boolean) => (await post('/api/show', { model: 'demo', verbose })).json();
    const { model_info: brief } = await shown(false);
    expect(brief['tokenizer.ggml.tokens']).toBeNull();
    const { model_info: whole, tensors } = await shown(true);
    expect(whole['tokenizer.ggml.tokens']).toHaveLength(4096);
    expect(tensors).toContainEqual({ name: 'token_embd.weight', type: 'Q8_0', shape: [4096, 384] });
  });
});
