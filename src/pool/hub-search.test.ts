import { afterEach, describe, expect, it } from 'vitest';
import { type HubStandIn, startHub } from '../../test/support/hub-stand-in.ts';
import { pullableModels, searchHub } from './hub-search.ts';
import { PullError } from './model-reference.ts';

let hub: HubStandIn;
afterEach(() => hub?.close());

const { signal } = new AbortController();
const gguf = (saysBytes: number) => ({ bytes: Buffer.from('x'), lfs: true, saysBytes });

const repositories = {
  'ann/Tiny-Instruct-GGUF': {
    'Tiny-Instruct-Q8_0.gguf': gguf(8000),
    'Tiny-Instruct-Q4_K_M.gguf': gguf(4000),
    'UD/Tiny-Instruct-UD-Q4_K_M.gguf': gguf(4100),
    'big/Tiny-Instruct-BF16-00001-of-00002.gguf': gguf(9000),
    'big/Tiny-Instruct-BF16-00002-of-00002.gguf': gguf(7000),
    'broken-F32-00001-of-00002.gguf': gguf(1),
    'mmproj-F16.gguf': gguf(50),
  },
  'bob/tiny-instruct': {
    'config.json': { bytes: Buffer.from('{}') },
    'model.safetensors': gguf(16_000),
  },
  'cat/tiny-odd-GGUF': { 'odd.gguf': gguf(5) },
};
const models = {
  'ann/Tiny-Instruct-GGUF': { downloads: 90, gguf: { total: 1_240_000_000, architecture: 'llama' } },
  'bob/tiny-instruct': { gated: 'manual', safetensors: { total: 8000 }, config: { model_type: 'qwen3' } },
  'cat/tiny-odd-GGUF': { downloads: 900, gguf: { total: 5, architecture: 'rwkv7' } },
};

describe('a search of the hub', () => {
  it('finds by words, the most downloaded first, and says what is supported here', async () => {
    hub = await startHub(repositories, models);
    const asked = { url: hub.url, token: 'secret' };
    hub.faults.token = 'secret';
    const found = await searchHub(asked, { words: 'tiny gguf', format: 'gguf' }, signal);
    expect(found).toEqual([
      expect.objectContaining({ name: 'cat/tiny-odd-GGUF', architecture: 'rwkv7', supported: false }),
      {
        name: 'ann/Tiny-Instruct-GGUF',
        parameters: 1_240_000_000,
        architecture: 'llama',
        supported: true,
        downloads: 90,
        likes: 7,
        changedSeconds: Date.UTC(2026, 4, 1, 12) / 1000,
        gated: false,
      },
    ]);
    expect(await searchHub(asked, { words: 'tiny', format: 'safetensors' }, signal)).toEqual([
      expect.objectContaining({
        name: 'bob/tiny-instruct',
        architecture: 'qwen3',
        supported: true,
        gated: true,
      }),
    ]);
  });

  it('takes a mirror that says nothing but names', async () => {
    hub = await startHub({});
    hub.faults.searchBody = '[{"id":"ann/tiny"}]';
    expect(await searchHub(hub, { words: 'tiny', format: 'gguf' }, signal)).toEqual([
      { name: 'ann/tiny', gated: false },
    ]);
  });

  it('says what is wrong where the hub cannot be reached, refuses, or answers something else', async () => {
    hub = await startHub(repositories);
    const failure = async (url = hub.url) => {
      const error = await searchHub({ url }, { words: 'tiny', format: 'gguf' }, signal).catch((e) => e);
      expect(error).toBeInstanceOf(PullError);
      return (error as PullError).message;
    };
    expect(await failure('http://127.0.0.1:9')).toMatch(
      /127\.0\.0\.1:9 cannot be reached .*check the network/,
    );
    hub.faults.searchBody = '<html>';
    expect(await failure()).toContain('something else than models');
    hub.faults.searchStatus = 429;
    expect(await failure()).toContain('asks for fewer requests (429)');
    hub.faults.searchStatus = 500;
    expect(await failure()).toContain('status 500');
  });
});

describe('what of a repository can be pulled', () => {
  it('is each GGUF with all its parts, by the shortest name that means it alone, the smallest first', async () => {
    hub = await startHub(repositories);
    const found = await pullableModels(hub, { owner: 'ann', repo: 'Tiny-Instruct-GGUF' }, signal);
    expect(found.map(({ model, quantization, sizeBytes }) => [model, quantization, sizeBytes])).toEqual([
      ['ann/Tiny-Instruct-GGUF:Tiny-Instruct-Q4_K_M.gguf', 'Q4_K_M', 4000],
      ['ann/Tiny-Instruct-GGUF:UD-Q4_K_M', 'UD-Q4_K_M', 4100],
      ['ann/Tiny-Instruct-GGUF:Q8_0', 'Q8_0', 8000],
      ['ann/Tiny-Instruct-GGUF:BF16', 'BF16', 16_000],
    ]);
  });

  it('is the folder of safetensors', async () => {
    hub = await startHub(repositories);
    expect(await pullableModels(hub, { owner: 'bob', repo: 'tiny-instruct' }, signal)).toEqual([
      { model: 'bob/tiny-instruct', path: '', sizeBytes: 16_002 },
    ]);
  });

  it('is an error where there is no such repository', async () => {
    hub = await startHub(repositories);
    await expect(pullableModels(hub, { owner: 'ann', repo: 'none' }, signal)).rejects.toThrow(
      'there is no model ann/none',
    );
  });
});
