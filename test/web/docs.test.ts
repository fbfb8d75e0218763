// The reference of the API in a real browser: read without a key, and tried with one.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { hindrances } from '../support/hindrances.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { allowClipboard, eventually, isLive, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'the reference' : `the reference (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let adminKey: string;

  beforeAll(async () => {
    adminKey = home.createKey('operator', 'high', '--admin');
    server = await home.start();
  });

  async function openDocs(key?: string, more: { dark?: boolean; width?: number } = {}): Promise<Page> {
    const { dark = false, width = 1280 } = more;
    const page = await tabs.open('chat', { url: server.url, key, dark, screen: { width, height: 844 } });
    await page.goto(`${server.url}/docs`);
    await page.getByText('/v1/chat/completions', { exact: true }).waitFor();
    return page;
  }

  /** Opens a route and gives the form that tries it. */
  async function open(page: Page, route: string) {
    await page.locator('summary', { hasText: route }).first().click();
    return page.getByRole('form', { name: `Try ${route}` });
  }

  it('is linked from the page, and needs no key to be read', async () => {
    const page = await tabs.open('lift', { url: server.url, key: adminKey });
    await isLive(page);
    await page.getByRole('link', { name: 'API', exact: true }).click();
    await page.getByRole('heading', { name: 'API' }).waitFor();
    await page.getByRole('link', { name: 'The page' }).click();
    await isLive(page);
    expect(tabs.complaints).toEqual([]);
    const stranger = await openDocs();
    await open(stranger, 'POST /v1/chat/completions');
    await stranger.getByRole('row', { name: /^messages\[\] required/ }).waitFor();
    await stranger.getByRole('row', { name: /^temperature .*from 0 to 100/ }).waitFor();
  });

  it('sends a request with the key of the page, shows its answer, and the same for a shell', async () => {
    const page = await openDocs(adminKey);
    const form = await open(page, 'POST /v1/chat/completions');
    await form.getByRole('button', { name: 'Send' }).click();
    await form.getByText(/^200 in .* application\/json/).waitFor();
    expect(await form.locator('.answer-text').innerText()).toContain('"object": "chat.completion"');
    expect(await page.content()).not.toContain(adminKey);
    await allowClipboard(page);
    await form.getByRole('button', { name: 'Copy' }).last().click();
    const curl = await page.evaluate<string>('navigator.clipboard.readText()');
    const answer = execFileSync('sh', ['-c', curl.replace('curl', 'curl -sS')], { encoding: 'utf8' });
    expect(JSON.parse(answer).object).toBe('chat.completion');
    expect(tabs.complaints).toEqual([]);
  });

  it('takes a key that is typed in, and says what the server says without one', async () => {
    const page = await openDocs();
    const form = await open(page, 'GET /v1/models/{id}');
    await form.getByLabel('id').fill('default');
    await form.getByRole('button', { name: 'Send' }).click();
    await form.getByText(/^401 in/).waitFor();
    await page.getByLabel('API key to try with').fill(adminKey);
    await form.getByRole('button', { name: 'Send' }).click();
    await form.getByText(/^200 in/).waitFor();
    await eventually(() => form.locator('.answer-text').innerText()).toContain('"object": "model"');
    expect(page.url()).not.toContain(adminKey);
  });

  it('shows a stream as it comes, and stops it', async () => {
    const page = await openDocs(adminKey);
    const form = await open(page, 'GET /live');
    await form.getByRole('button', { name: 'Send' }).click();
    await eventually(() => form.locator('.answer-text').innerText()).toContain('event: snapshot');
    await form.getByRole('button', { name: 'Stop' }).click();
    await form.getByText(/^200 stopped after/).waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('uploads a file', async () => {
    const page = await openDocs(adminKey);
    const form = await open(page, 'POST /v1/files');
    const path = join(home.folder, 'note.txt');
    writeFileSync(path, 'Hello');
    await form.getByLabel('purpose').selectOption('user_data');
    await form.getByLabel('file').setInputFiles(path);
    await form.getByRole('button', { name: 'Send' }).click();
    await form.getByText(/^200 in/).waitFor();
    await eventually(() => form.locator('.answer-text').innerText()).toContain('"filename": "note.txt"');
  });

  it('is searched by path and words', async () => {
    const page = await openDocs();
    await page.getByRole('searchbox').fill('batches cancel admin');
    await eventually(() => page.locator('summary').count()).toBe(1);
    await page.getByRole('searchbox').fill('xyzzy');
    await page.getByText('No route is like that.').waitFor();
  });

  it.each([
    { width: 390, dark: false },
    { width: 390, dark: true },
    { width: 1440, dark: false },
  ])('keeps nobody out, and fits ($width, dark: $dark)', async (how) => {
    const page = await openDocs(adminKey, how);
    const form = await open(page, 'POST /v1/completions');
    await form.getByRole('button', { name: 'Send' }).click();
    await form.getByText(/^200 in/).waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(
      await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
  });
});
