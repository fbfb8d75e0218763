// Pages of other sites in a real browser, and a server without keys: none of them can have it do anything.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser, startBrowser } from '../support/browser.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';

const title =
  missingBrowser === undefined
    ? 'a page of another site'
    : `a page of another site (skipped: ${missingBrowser})`;

const plainText = `fetch(url, { method: 'POST', mode: 'no-cors', body })`;

const asked = [
  ['/admin/keys', { name: 'theirs' }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 }],
  ['/api/generate', { model: 'chairlift-demo-14m-q8_0', prompt: 'Hi', stream: false }],
] as const;

/** What a page can have a browser post without asking the server first, in the page's own words. */
const posts: Readonly<Record<string, string>> = {
  'a fetch of plain text': plainText,
  'a fetch of no type': `fetch(url, { method: 'POST', mode: 'no-cors', body: new Blob([body]) })`,
  'a form with parts': `fetch(url, { method: 'POST', mode: 'no-cors', body: (() => { const f = new FormData(); f.append('a', body); return f; })() })`,
  'a beacon': `navigator.sendBeacon(url, body)`,
  'a form in a frame': `new Promise((sent) => {
    const frame = document.createElement('iframe');
    frame.name = 'there';
    document.body.append(frame);
    const form = document.createElement('form');
    Object.assign(form, { method: 'POST', action: url, enctype: 'text/plain', target: 'there' });
    const field = document.createElement('input');
    // The browser writes name=value: together they are JSON.
    Object.assign(field, { name: body.slice(0, -1) + ',"x":"', value: '"}' });
    form.append(field);
    document.body.append(form);
    frame.onload = () => sent();
    form.submit();
  })`,
  'a frame without an origin': `new Promise((sent) => {
    addEventListener('message', () => sent());
    const frame = document.createElement('iframe');
    frame.sandbox = 'allow-scripts';
    frame.srcdoc = '<script>fetch(' + JSON.stringify(url) + ", { method: 'POST', mode: 'no-cors', body: " +
      JSON.stringify(body).replaceAll('<', '') + " }).catch(() => {}).then(() => parent.postMessage('sent', '*'))</" + 'script>';
    document.body.append(frame);
  })`,
};

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = new ServerHome();
  let browser: Browser;
  let server: ServerProcess;
  let open: ServerProcess;
  let site: Server;
  let origin: string;

  beforeAll(async () => {
    browser = await startBrowser();
    site = createServer((_, response) =>
      response.setHeader('content-type', 'text/html').end('<!doctype html><body>'),
    );
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    // Another name of this machine, so that it is another site and not merely another port.
    origin = `http://localhost:${(site.address() as AddressInfo).port}`;
    server = await home.start();
    open = await home.start('--cors-origins', origin);
  });

  afterAll(async () => {
    await browser?.close();
    site?.close();
    await home.close();
  });

  async function inPage(from: string, script: string): Promise<unknown> {
    const context = await browser.newContext();
    try {
      const page = await context.newPage();
      await page.goto(from);
      return await page.evaluate(script);
    } finally {
      await context.close();
    }
  }

  const post = (how: string, to: string, path: string, body: object) =>
    inPage(
      origin,
      `(() => { const url = ${JSON.stringify(to + path)}; const body = ${JSON.stringify(JSON.stringify(body))}; return ${how}; })()`,
    );
  const metric = async ({ url }: ServerProcess, name: string) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(name))
        ?.split(' ')
        .at(-1) ?? 0,
    );
  };
  const refused = () => metric(server, 'chairlift_errors_total{kind="origin_not_allowed"}');

  it.each(Object.entries(posts))('makes no key and asks no model by %s', async (_, how) => {
    const before = await refused();
    for (const [at, [path, body]] of asked.entries()) {
      await post(how, server.url, path, body);
      await expect.poll(refused, { timeout: 30_000 }).toBe(before + at + 1);
    }
    expect(await (await fetch(`${server.url}/admin/keys`)).json()).toEqual({ object: 'list', data: [] });
    expect(await metric(server, 'chairlift_prompt_tokens_total')).toBe(0);
  });

  it('asks by the same posts where it may', async () => {
    const [, [path, body]] = asked;
    await post(plainText, open.url, path, body);
    await expect.poll(() => metric(open, 'chairlift_prompt_tokens_total')).toBeGreaterThan(0);
  });

  it('is not told by CORS that it may, nor shown an answer', async () => {
    const read = `fetch(${JSON.stringify(`${server.url}/v1/models`)}).then((r) => r.text(), (e) => e.name)`;
    expect(await inPage(origin, read)).toBe('TypeError');
    const allowed = `fetch(${JSON.stringify(`${open.url}/v1/models`)}).then((r) => r.status)`;
    expect(await inPage(origin, allowed)).toBe(200);
  });

  it('differs from the server’s own page, which may post', async () => {
    const [, [path, body]] = asked;
    const script = `fetch(${JSON.stringify(path)}, { method: 'POST', body: ${JSON.stringify(JSON.stringify(body))} }).then((r) => r.status)`;
    expect(await inPage(`${open.url}/`, script)).toBe(200);
  });
});
