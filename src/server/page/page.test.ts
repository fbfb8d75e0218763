// The page's files as browsers get them.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { start } from '../../../test/support/keyed-server.ts';
import { opened } from '../../../test/support/opened.ts';

const index = '<!doctype html><title>Chairlift</title>'.repeat(10);
const script = 'console.log("up");\n'.repeat(50);

let pageFolder: string;
beforeEach(() => {
  pageFolder = mkdtempSync(join(tmpdir(), 'page-'));
  opened.push(() => rmSync(pageFolder, { recursive: true }));
});

function writePage(): void {
  mkdirSync(join(pageFolder, 'assets'));
  for (const [name, text] of [
    ['index.html', index],
    ['docs.html', `${index}docs`],
    ['assets/index-1a2b.js', script],
    ['assets/style-3c.css', 'body{}'],
  ] as const) {
    const path = join(pageFolder, name);
    writeFileSync(path, text);
    if (name.endsWith('.css')) continue;
    writeFileSync(`${path}.br`, brotliCompressSync(text));
    writeFileSync(`${path}.gz`, gzipSync(text));
  }
}

async function startPage() {
  writePage();
  const { app } = await start({ pageFolder });
  return (url: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    app.inject({ method, url, headers });
}

describe('the page', () => {
  it('needs no key and may load nothing from elsewhere', async () => {
    const call = await startPage();
    const { statusCode, headers, body } = await call('/', { host: 'elsewhere.example' });
    expect({ statusCode, body }).toEqual({ statusCode: 200, body: index });
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'cross-origin-opener-policy': 'same-origin',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    });
  });

  it('comes compressed as the browser likes best', async () => {
    const call = await startPage();
    const path = '/assets/index-1a2b.js';
    const best = await call(path, { 'accept-encoding': 'gzip, deflate, br' });
    expect(best.headers).toMatchObject({ 'content-encoding': 'br', vary: 'accept-encoding' });
    expect(brotliDecompressSync(best.rawPayload).toString()).toBe(script);
    const second = await call(path, { 'accept-encoding': 'gzip;q=1.0, br;q=0' });
    expect(second.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(second.rawPayload).toString()).toBe(script);
    for (const accepted of ['identity', 'gzip;q=0', '', 'nonsense;;;,']) {
      const plain = await call(path, { 'accept-encoding': accepted });
      expect(plain.headers['content-encoding']).toBeUndefined();
      expect(plain.body).toBe(script);
    }
    const whole = await call('/assets/style-3c.css', { 'accept-encoding': 'br' });
    expect(whole.headers['content-encoding']).toBeUndefined();
    expect(whole.headers['content-type']).toBe('text/css; charset=utf-8');
  });

  it('keeps what has a name of its own content for good, and asks about the rest', async () => {
    const call = await startPage();
    const { headers } = await call('/assets/index-1a2b.js');
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const first = await call('/', { 'accept-encoding': 'br' });
    const { etag = '' } = first.headers;
    const again = await call('/', { 'accept-encoding': 'br', 'if-none-match': `"other", W/${etag}` });
    expect(again).toMatchObject({ statusCode: 304, body: '' });
    expect(again.headers.etag).toBe(etag);
    // Another form is another thing.
    const plain = await call('/', { 'if-none-match': etag });
    expect(plain.statusCode).toBe(200);
    expect(plain.headers.etag).not.toBe(etag);
  });

  it('answers HEAD with the same headers and nothing else', async () => {
    const call = await startPage();
    const head = await call('/', {}, 'HEAD');
    expect(head).toMatchObject({ statusCode: 200, body: '' });
    expect(head.headers['content-length']).toBe(String(index.length));
  });

  it.each([
    '/assets/../index.html',
    '/assets/..%2findex.html',
    '/assets/',
    '/assets/%00',
    '/assets/index-1a2b.js.br',
  ])('has no file %s', async (url) => {
    const call = await startPage();
    const { statusCode, headers } = await call(url);
    expect([200, 404]).toContain(statusCode);
    if (statusCode === 200) expect(headers['content-type']).toContain('text/html');
    else expect(headers['content-type']).toContain('application/json');
  });

  it('says how to build it where it is not built', async () => {
    const { app } = await start({ pageFolder: join(pageFolder, 'missing') });
    const { statusCode, headers, body } = await app.inject({ url: '/' });
    expect(statusCode).toBe(200);
    expect(headers['content-type']).toContain('text/plain');
    expect(body).toContain('npm run setup');
  });

  it('of the documentation is as well guarded, and says as well that it is not built', async () => {
    const call = await startPage();
    const { headers, body } = await call('/docs');
    expect(body).toBe(`${index}docs`);
    expect(headers).toEqual(expect.objectContaining({ 'content-type': 'text/html; charset=utf-8' }));
    const { headers: ofPage } = await call('/');
    for (const name of ['content-security-policy', 'x-frame-options', 'x-content-type-options']) {
      expect(headers[name]).toBe(ofPage[name]);
    }
    const { app } = await start({ pageFolder: join(pageFolder, 'missing') });
    expect((await app.inject({ url: '/docs' })).body).toContain('npm run setup');
  });
});
