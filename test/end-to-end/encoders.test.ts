// The running program with encoders: vectors of many texts at once, and one clear refusal of everything else.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { load } from '../../src/app/loaded-model.ts';
import { addBenchOffline } from '../../src/cli/bench-offline.ts';
import { addChat } from '../../src/cli/chat.ts';
import { addGenerate } from '../../src/cli/generate.ts';
import { addInspect } from '../../src/cli/inspect.ts';
import { addLogits } from '../../src/cli/logits.ts';
import { wordPiece } from '../fixtures/tokenizers/tokenizer-fixtures.ts';
import { writeEncoderFolder, writeEncoderGguf } from '../support/encoder-folder.ts';
import { runCommand } from '../support/run-command.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';

const home = serverHome();
let server: ServerProcess;
let key: string;
let folder: string;

beforeAll(async () => {
  key = home.createKey('tester', 'normal');
  folder = join(home.folder, 'models');
  mkdirSync(folder);
  writeEncoderFolder(join(folder, 'mean'));
  writeEncoderFolder(join(folder, 'cls'), { pooling: 'pooling_mode_cls_token' });
  writeEncoderFolder(join(folder, 'mapped'), { dense: true });
  writeEncoderGguf(join(folder, 'file.gguf'));
  server = await home.start('--models-folder', folder);
});

const post = (path: string, body: object) =>
  fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });

async function embed(model: string, input: string | readonly string[]): Promise<number[][]> {
  const response = await post('/v1/embeddings', { model, input });
  if (response.status !== 200) throw new Error(await response.text());
  const { data } = (await response.json()) as { data: { embedding: number[] }[] };
  return data.map(({ embedding }) => embedding);
}

const texts = [
  ...wordPiece.texts.filter(({ length }) => length > 0 && length < 99),
  ...Array.from({ length: 60 }, (_, i) => 'the quick brown fox jumps over '.repeat(1 + (i % 9))),
];

describe.each(['mean', 'cls', 'mapped'])('an encoder, %s', (model) => {
  it('gives many texts at once the vectors that each has alone', async () => {
    const together = await embed(model, texts);
    expect(together.length).toBe(texts.length);
    for (const at of [0, 3, 11, 20, 30, 70]) {
      expect(await embed(model, texts[at] as string)).toEqual([together[at]]);
    }
    const length = Math.sqrt((together[0] as number[]).reduce((sum, value) => sum + value ** 2, 0));
    expect(length).toBeCloseTo(1, 5);
  });
});

describe('a server of encoders', () => {
  it('gives the vectors of a folder to the same model in a GGUF file', async () => {
    expect(await embed('file', texts)).toEqual(await embed('cls', texts));
  });

  it('lists the models alone, not the steps of one', async () => {
    const headers = { authorization: `Bearer ${key}` };
    const { data } = (await (await fetch(`${server.url}/v1/models`, { headers })).json()) as {
      data: { id: string }[];
    };
    expect(data.map(({ id }) => id).sort()).toEqual(['cls', 'file', 'mapped', 'mean']);
  });

  it.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'the fox' }] }],
    ['/v1/completions', { prompt: 'the fox' }],
    ['/v1/responses', { input: 'the fox' }],
    ['/v1/messages', { messages: [{ role: 'user', content: 'the fox' }], max_tokens: 5 }],
  ])('refuses %s in one clear line', async (path, body) => {
    const response = await post(path, { model: 'mean', ...body });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toContain("the model 'mean' embeds texts and cannot continue them");
  });

  it('ranks texts, and embeds them for clients of Ollama', async () => {
    const documents = ['the lazy dog', 'the quick fox', 'the quick fox jumps'];
    const ranked = await post('/v1/rerank', { model: 'mean', query: 'the quick fox', documents });
    const { results } = (await ranked.json()) as { results: { index: number }[] };
    expect(results[0]?.index).toBe(1);
    const embedded = await post('/api/embed', { model: 'mean', input: documents });
    const { embeddings } = (await embedded.json()) as { embeddings: number[][] };
    expect(embeddings).toEqual(await embed('mean', documents));
  });

  it('refuses a text beyond the positions that the model has, unless it may be cut', async () => {
    const input = 'fox '.repeat(100);
    const response = await post('/v1/embeddings', { model: 'mean', input });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error).toMatchObject({ code: 'context_length_exceeded' });
    expect(error.message).toContain('80 tokens');
    const cut = await post('/api/embed', { model: 'mean', input });
    expect(cut.status).toBe(200);
    expect((await embed('mean', 'fox '.repeat(78))).length).toBe(1);
  });
});

describe('an encoder without a server', () => {
  it('is inspected as what it is', async () => {
    const { output, error } = await runCommand(addInspect, ['inspect', join(folder, 'mapped')]);
    expect(error).toBeUndefined();
    expect(output).toMatch(/kind +encoder: .*pooled by mean, then 2 linear maps/);
    expect(output).toContain('WordPiece');
    const { output: json } = await runCommand(addInspect, ['inspect', join(folder, 'cls'), '--json']);
    expect(JSON.parse(json)).toMatchObject({ encoder: true, pooling: 'cls', architecture: 'bert' });
  });

  it.each([
    ['generate', addGenerate, ['--prompt', 'the']],
    ['logits', addLogits, ['--ids', '1,2']],
    ['offline', addBenchOffline, []],
    ['chat', addChat, []],
  ])('is refused by %s in one line', async (command, add, words) => {
    const { error } = await runCommand(add, [command, '--model', join(folder, 'mean'), ...words]);
    expect((error as Error).message).toMatch(/embeds texts and/);
  });

  it('embeds by the library what it embeds by the server', async () => {
    const model = await load({ path: join(folder, 'mapped'), threads: 1 });
    try {
      const { vectors } = await model.embed(texts.slice(0, 5));
      const expected = await embed('mapped', texts.slice(0, 5));
      for (const [at, vector] of vectors.entries()) expect([...vector]).toEqual(expected[at]);
    } finally {
      await model.close();
    }
  });
});
