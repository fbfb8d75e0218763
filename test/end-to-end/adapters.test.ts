// The running program with adapters: asked for as models, many at once, and refused where they do not fit.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { addGenerate } from '../../src/cli/generate.ts';
import { addInspect } from '../../src/cli/inspect.ts';
import { load } from '../../src/index.ts';
import { openGguf } from '../../src/weights/gguf.ts';
import { columnsOf, rowsOf } from '../../src/weights/weight-source.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { writeGguf } from '../support/gguf-writer.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { runCommand } from '../support/run-command.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';

/** Random, for queries and what attention gives; of another model where the inputs are not its own. */
function writeAdapter(path: string, seed: number, extraInputs = 0): string {
  const model = openGguf(embeddedModelPath);
  model.weights.close();
  const random = seededRandom(seed);
  const floats = (shape: readonly [number, number]) =>
    new Uint8Array(Float32Array.from({ length: shape[0] * shape[1] }, () => random() - 0.5).buffer);
  const all = [...model.weights.tensors.values()];
  // Adapters are not for the layer of the MTP head.
  const headLayer = /^blk\.\d+\./.exec(all.find(({ name }) => name.includes('.nextn.'))?.name ?? '')?.[0];
  const targets = all.filter(
    ({ name }) =>
      /attn_(q|output)\.weight$/.test(name) && (headLayer === undefined || !name.startsWith(headLayer)),
  );
  const tensors = targets.flatMap((tensor) => {
    const down = [4, columnsOf(tensor) + extraInputs] as const;
    const up = [rowsOf(tensor), 4] as const;
    return [
      { name: `${tensor.name}.lora_a`, type: 'F32' as const, shape: down, bytes: floats(down) },
      { name: `${tensor.name}.lora_b`, type: 'F32' as const, shape: up, bytes: floats(up) },
    ];
  });
  const metadata = {
    'general.type': { type: 'string', value: 'adapter' },
    'adapter.type': { type: 'string', value: 'lora' },
    'adapter.lora.alpha': { type: 'f32', value: 4 },
  } as const;
  writeFileSync(path, writeGguf({ metadata, tensors }).bytes);
  return path;
}

const home = serverHome();
let server: ServerProcess;
let key: string;

beforeAll(async () => {
  key = home.createKey('tester', 'normal', '--admin');
  const one = writeAdapter(join(home.folder, 'one.gguf'), 1);
  const two = writeAdapter(join(home.folder, 'two.gguf'), 2);
  const flags = ['--model', `tiny=${embeddedModelPath}`, '--alias', 'second=tiny:two'];
  server = await home.start(...flags, '--adapter', `tiny:one=${one}`, '--adapter', `tiny:two=${two}`);
});

const request = (path: string, body?: object) =>
  fetch(`${server.url}${path}`, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
  });

async function answer(model: string, prompt: string): Promise<string> {
  const response = await request('/v1/completions', { model, prompt, max_tokens: 12, temperature: 0 });
  expect(response.status).toBe(200);
  const { choices, model: answered } = (await response.json()) as {
    choices: { text: string }[];
    model: string;
  };
  expect(answered).toBe(model === 'second' ? 'tiny:two' : model);
  return choices[0]?.text as string;
}

describe('adapters that come while the server runs, as vLLM loads them', () => {
  const load = (body: object) => request('/v1/load_lora_adapter', body);

  it('are models by their own name until they are removed', async () => {
    const path = writeAdapter(join(home.folder, 'three.gguf'), 3);
    const before = { plain: await answer('tiny', 'Once upon'), one: await answer('tiny:one', 'Once upon') };
    const loaded = await load({ lora_name: 'three', lora_path: path, base_model_name: 'tiny' });
    expect(await loaded.text()).toBe("Success: LoRA adapter 'three' added successfully.");
    const third = await answer('tiny:three', 'Once upon');
    expect(third).not.toBe(before.plain);
    const body = { model: 'three', prompt: 'Once upon', max_tokens: 12, temperature: 0 };
    const named = (await (await request('/v1/completions', body)).json()) as { choices: { text: string }[] };
    expect(named.choices[0]?.text).toBe(third);
    expect(await answer('tiny:one', 'Once upon')).toBe(before.one);
    expect(await answer('tiny', 'Once upon')).toBe(before.plain);
    const listed = (await (await request('/lora-adapters')).json()) as { id: number; name: string }[];
    expect(listed.map(({ name }) => name)).toEqual(['tiny:one', 'tiny:two', 'tiny:three']);
    const native = { prompt: 'Once upon', n_predict: 12, temperature: 0, lora: [{ id: 2, scale: 1 }] };
    const completed = (await (await request('/completion', native)).json()) as { content: string };
    expect(completed.content).toBe(third);
    expect((await load({ lora_name: 'three', lora_path: path })).status).toBe(400);
    expect((await request('/v1/unload_lora_adapter', { lora_name: 'three' })).status).toBe(200);
    expect((await request('/v1/completions', body)).status).toBe(404);
    expect((await request('/v1/unload_lora_adapter', { lora_name: 'three' })).status).toBe(404);
  });

  it('answer at llama-server’s routes where an admin has set one, until another request says otherwise', async () => {
    const body = { prompt: 'Once upon', n_predict: 12, temperature: 0 };
    const complete = async (more: object = {}) =>
      ((await (await request('/completion', { ...body, ...more })).json()) as { content: string }).content;
    const scales = async () =>
      ((await (await request('/lora-adapters')).json()) as { scale: number }[]).map(({ scale }) => scale);
    const [plain, second] = [await answer('tiny', 'Once upon'), await answer('tiny:two', 'Once upon')];
    expect(await complete()).toBe(plain);
    const set = (given: unknown) => request('/lora-adapters', given as object);
    expect(await (await set([{ id: 1, scale: 1 }])).json()).toEqual({ success: true });
    expect(await scales()).toEqual([0, 1]);
    expect(await complete()).toBe(second);
    expect(await complete({ lora: [{ id: 1, scale: 0 }] })).toBe(plain);
    expect(await answer('tiny', 'Once upon')).toBe(plain);
    for (const wrong of [
      [{ id: 7, scale: 1 }],
      [{ id: 0, scale: 0.5 }],
      { id: 0 },
      [
        { id: 0, scale: 1 },
        { id: 1, scale: 1 },
      ],
    ]) {
      expect((await set(wrong)).status, JSON.stringify(wrong)).toBe(400);
    }
    expect(await complete()).toBe(second);
    expect((await set([{ id: 1, scale: 0 }])).status).toBe(200);
    expect(await complete()).toBe(plain);
    expect(await scales()).toEqual([0, 0]);
  });

  it('are refused where they do not fit, are not there, or no admin asks', async () => {
    const wrong = writeAdapter(join(home.folder, 'wrong.gguf'), 4, 32);
    for (const path of [wrong, join(home.folder, 'nothing.gguf')]) {
      const refused = await load({ lora_name: 'bad', lora_path: path });
      expect(refused.status).toBe(400);
      expect(((await refused.json()) as { error: { param: string } }).error.param).toBe('lora_path');
    }
    expect((await load({ lora_name: 'x', lora_path: wrong, base_model_name: 'none' })).status).toBe(404);
    const guest = home.createKey('guest', 'normal');
    const asked = await fetch(`${server.url}/v1/load_lora_adapter`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${guest}` },
      body: JSON.stringify({ lora_name: 'x', lora_path: wrong }),
    });
    expect(asked.status).toBe(403);
    expect(await answer('tiny', 'Once upon')).not.toBe('');
  });
});

describe('adapters of a served model', () => {
  it('are listed beside it', async () => {
    const { data } = (await (await request('/v1/models')).json()) as { data: object[] };
    expect(data).toMatchObject([
      { id: 'tiny' },
      { id: 'tiny:one', parent: 'tiny', aliases: [] },
      { id: 'tiny:two', parent: 'tiny', aliases: ['second'] },
    ]);
    expect((await request('/v1/models/tiny:one')).status).toBe(200);
  });

  it('answer in their own way, the same alone and at once', async () => {
    const models = ['tiny', 'tiny:one', 'tiny:two', 'second'];
    const prompts = ['Once', 'The dog', 'What is', 'A long time ago, in a village'];
    const asked = prompts.flatMap((prompt) => models.map((model) => [model, prompt] as const));
    const alone: string[] = [];
    for (const [model, prompt] of asked) alone.push(await answer(model, prompt));
    expect(await Promise.all(asked.map(([model, prompt]) => answer(model, prompt)))).toEqual(alone);
    expect(new Set(alone.slice(0, 4)).size).toBe(3);
    expect(alone[3]).toBe(alone[2]);
  });

  it('answer the same in a program and on the command line', async () => {
    const path = join(home.folder, 'two.gguf');
    const known = await answer('tiny:two', 'The dog');
    const model = await load({ path: embeddedModelPath, adapters: { two: path } });
    try {
      const asked = { maxTokens: 12, temperature: 0 };
      const { text } = await model.complete('The dog', { ...asked, adapter: 'two' }).result();
      expect(text).toBe(known);
      const plain = await model.complete('The dog', asked).result();
      expect(plain.text).toBe(await answer('tiny', 'The dog'));
      await expect(model.complete('The dog', { adapter: 'three' }).result()).rejects.toMatchObject({
        code: 'invalid_value',
        message: expect.stringContaining('give one of two'),
      });
    } finally {
      await model.close();
    }
    const words = [
      '--model',
      embeddedModelPath,
      '--adapter',
      path,
      '--prompt',
      'The dog',
      '--max-tokens',
      '12',
    ];
    const { output } = await runCommand(addGenerate, ['generate', ...words, '--json']);
    expect(JSON.parse(output)).toMatchObject({ text: known });
  });

  it('are not made up', async () => {
    const response = await request('/v1/completions', { model: 'tiny:three', prompt: 'Once' });
    expect(response.status).toBe(404);
  });
});

describe('an adapter that does not fit', () => {
  const refusal = async (...flags: string[]) => {
    const started = home.start('--model', `tiny=${embeddedModelPath}`, ...flags);
    return started.then(
      () => undefined,
      (error: Error) => error.message.trim().split('\n').slice(1),
    );
  };

  it('is refused in one line: a path without one, a model that is not there', async () => {
    expect(await refusal('--adapter', `tiny:one=${join(home.folder, 'nothing')}`)).toEqual([
      expect.stringMatching(/--adapter: .*nothing/),
    ]);
    expect(await refusal('--adapter', `other:one=${join(home.folder, 'one.gguf')}`)).toEqual([
      expect.stringMatching(/--adapter: there is no model named other/),
    ]);
  });

  it('is refused in one line: of another model', async () => {
    const path = writeAdapter(join(home.folder, 'wide.gguf'), 3, 8);
    const { error } = await runCommand(addInspect, ['inspect', embeddedModelPath, '--adapter', path]);
    expect(`${error}`).toMatch(
      /wide\.gguf: blk\.0\.attn_\w+\.weight\.lora_a: has the shape .*\. The adapter was trained for another model\.$/,
    );
  });
});
