import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { upstreamsFrom } from '../../test/support/upstream-servers.ts';
import { checkUpstreams } from './upstream-settings.ts';

const plain = { name: 'cloud', url: 'https://api.example/v1', models: ['large'] };

describe('upstreams of the configuration', () => {
  it.each([
    [{ url: 'http://169.254.169.254/' }, /cloud: 169.254.169.254 is a link-local or metadata address/],
    [{ url: 'http://api.example' }, /cloud: api.example is another machine: use https, or set allowHttp/],
    [{ url: 'gopher://x' }, /cloud: give an address such as/],
    [{ key: 'sk-ü' }, /cloud: its key has characters that no header can hold/],
    [{ models: ['a', 'a'] }, /cloud: there are two models named 'a'/],
    [
      {
        models: [
          { name: 'a', fallbackFor: ['x'] },
          { name: 'b', fallbackFor: ['x'] },
        ],
      },
      /cloud: 'x' has two fallbacks/,
    ],
  ])('are refused with %j', (change, message) => {
    expect(() => upstreamsFrom({ ...plain, ...change })).toThrow(message);
  });

  it('may not take the name of a model that is here, and may stand in for one that is not, which is said', () => {
    const upstreams = upstreamsFrom({
      ...plain,
      models: [{ name: 'large', fallbackFor: ['alias', 'gone'] }],
    });
    const entry = { path: '/m', state: 'loaded', pinned: false, createdSeconds: 0, busy: 0 } as const;
    expect(checkUpstreams(upstreams, [{ ...entry, name: 'here', aliases: ['alias'] }])).toEqual(['gone']);
    expect(() => checkUpstreams(upstreams, [{ ...entry, name: 'x', aliases: ['large'] }])).toThrow(
      /cloud: a model here is called 'large', too/,
    );
  });

  it('read the file with a key for each request, and fail where it is not there', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-key-'));
    const keyFile = join(folder, 'key');
    const { key } = upstreamsFrom({ ...plain, keyFile }).models[0]?.upstream.settings ?? {};
    for (const text of ['sk-1\n', 'sk-2']) {
      writeFileSync(keyFile, text);
      expect(await key?.()).toBe(text.trim());
    }
    rmSync(folder, { recursive: true });
    await expect(key?.()).rejects.toThrow(/the file with its key cannot be read/);
  });
});
