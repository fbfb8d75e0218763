// The page in a real browser, on the real program: what it shows, what it survives, and what cannot be done to it.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { hindrances } from '../support/hindrances.ts';
import { type HubStandIn, startHub } from '../support/hub-stand-in.ts';
import { delayPosts } from '../support/page-requests.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';
import { allowClipboard, eventually, isFilled, isLive, say, shownText, Tabs } from '../support/tabs.ts';

const views = [
  'lift',
  'chat',
  'requests',
  'batches',
  'models',
  'keys',
  'usage',
  'bench',
  'settings',
] as const;
const hostileName = '<img src=x onerror=alert(1)>';
const title = missingBrowser === undefined ? 'the page' : `the page (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const modelBytes = readFileSync(embeddedModelPath);
  let hub: HubStandIn;
  let home: ServerHome;
  let server: ServerProcess;
  let adminKey: string;
  let plainKey: string;
  const tabs = new Tabs();

  beforeAll(async () => {
    const file = { bytes: modelBytes, lfs: true };
    hub = await startHub(
      { 'ann/tiny': { 'tiny-Q8_0.gguf': file, 'tiny-F32.gguf': { ...file, saysBytes: 1e15 } } },
      { 'ann/tiny': { downloads: 1234, gguf: { total: 14_200_000, architecture: 'llama' } } },
    );
    home = new ServerHome();
    adminKey = home.createKey('operator', 'high', '--admin');
    plainKey = home.createKey('guest', 'normal');
    const folder = join(home.folder, 'models');
    mkdirSync(folder);
    writeFileSync(join(folder, `${hostileName}.gguf`), modelBytes);
    home.environment = { HF_ENDPOINT: hub.url };
    server = await home.start('--models-folder', folder);
  });

  afterAll(async () => {
    await server?.stop();
    await hub?.close();
    home?.remove();
  });

  const openPage = (
    view: string,
    key?: string,
    options: { dark?: boolean; url?: string; screen?: { width: number; height: number } } = {},
  ): Promise<Page> => tabs.open(view, { url: server.url, key, ...options });

  function startStreams(count: number, tokens: number): StreamClient[] {
    return Array.from(
      { length: count },
      (_, n) =>
        new StreamClient(
          server.url,
          { prompt: `Once upon a time there were ${n} mice who`, max_tokens: tokens, ignore_eos: true },
          { key: adminKey },
        ),
    );
  }

  it('draws every view without a complaint of the browser', async () => {
    const page = await openPage('lift', adminKey);
    for (const view of views) {
      await page.goto(`${server.url}/#/${view}`);
      await isFilled(page, view);
    }
    expect(tabs.complaints).toEqual([]);
  });

  it('gives a reader of an idle server a request to copy that works as it stands', async () => {
    const own = new ServerHome();
    const key = own.createKey('boss', 'normal', '--admin');
    const running = await own.start();
    try {
      const page = await tabs.open('lift', { url: running.url, key });
      await allowClipboard(page);
      const begin = page.getByRole('region', { name: 'Begin here' });
      await begin.getByRole('tabpanel').getByRole('button', { name: 'Copy' }).click();
      expect(await begin.innerText()).not.toContain(key);
      const curl = await page.evaluate<string>('navigator.clipboard.readText()');
      const answer = execFileSync('sh', ['-c', curl.replace('curl', 'curl -sS')], { encoding: 'utf8' });
      expect(JSON.parse(answer).choices[0].message.content.length).toBeGreaterThan(0);
      await begin.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: '1 h' }).click();
      await begin.waitFor({ state: 'detached' });
      expect(tabs.complaints).toEqual([]);
    } finally {
      await running.stop();
      own.remove();
    }
  });

  it('says why a view that the address names is not here, and leads elsewhere', async () => {
    const page = await openPage('fleet', adminKey);
    await page.getByText('not part of a fleet').waitFor();
    expect(await page.locator('h1').textContent()).toBe('Fleet');
    await page.getByRole('link', { name: 'Go to Lift' }).click();
    await isLive(page);
    expect(tabs.complaints).toEqual([]);
  });

  it('shows blocks filling while sixteen streams run, and emptying after', async () => {
    const page = await openPage('lift', adminKey);
    await isLive(page);
    const held = async () =>
      Number((await page.locator('[data-count="held"]').first().innerText()).replace(',', ''));
    const streams = startStreams(16, 2000);
    await eventually(() => page.locator('.running tbody tr').count()).toBe(16);
    expect(await held()).toBeGreaterThanOrEqual(16);
    expect(
      await page
        .getByRole('img', { name: /^Block map/ })
        .first()
        .getAttribute('aria-label'),
    ).toMatch(/\d+ held by one sequence/);
    await page.getByRole('img', { name: /^Block map/ }).press('ArrowRight');
    await page.getByText(/^Block 0 (is|holds)/).waitFor();
    const running = page.locator('.running tbody a').first();
    const path = await running.getAttribute('href');
    await running.click();
    await page.getByText('was admitted: its prompt began to be computed').waitFor();
    expect(page.url()).toContain(path);
    await page.goBack();
    await isLive(page);
    for (const stream of streams) stream.leave();
    await page.getByText('No sequence is running.').waitFor();
    await eventually(held).toBe(0);
    await eventually(() => page.locator('.lift-foot tbody tr').count()).toBeGreaterThanOrEqual(16);
    expect(tabs.complaints).toEqual([]);
  });

  it('keeps the colours that were chosen', async () => {
    const page = await openPage('lift', adminKey, { dark: true });
    const paper = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    await isLive(page);
    const night = await paper();
    await page.getByRole('button', { name: /^Theme: Auto/ }).click();
    await page.getByRole('button', { name: /^Theme: Light/ }).waitFor();
    const day = await paper();
    expect(day).not.toBe(night);
    await page.reload();
    await isLive(page);
    expect(await paper()).toBe(day);
  });

  it('cuts off no label of its figures on a phone', async () => {
    const page = await openPage('lift', adminKey, { screen: { width: 390, height: 844 } });
    await isLive(page);
    const labels = page.locator('.figures dt');
    expect(await labels.count()).toBeGreaterThan(5);
    for (const label of await labels.all()) {
      expect(await label.evaluate((one) => one.scrollWidth - one.clientWidth)).toBeLessThanOrEqual(0);
    }
  });

  it('stands still while it is paused, says for how long, and goes on', async () => {
    const page = await openPage('lift', adminKey);
    await isLive(page);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText(/^Paused for/).waitFor();
    await page.getByRole('button', { name: 'Go on' }).click();
    await isLive(page);
  });

  it("sees an engine's death, and another one take over", async () => {
    const page = await openPage('lift', adminKey);
    await isLive(page);
    const [stream] = startStreams(1, 2000);
    await page.locator('.running tbody tr').waitFor();
    process.kill(server.enginePid(), 'SIGKILL');
    await page
      .getByText(/died and was started again/)
      .first()
      .waitFor();
    await page.locator('.running tbody tr').waitFor();
    expect((await stream?.answer)?.done).toBe(true);
    await page.getByText('No sequence is running.').waitFor();
  });

  it('survives a restart of the server, and says so', async () => {
    const own = new ServerHome();
    const key = own.createKey('operator', 'high', '--admin');
    let running = await own.start();
    try {
      const page = await openPage('lift', key, { url: running.url });
      await isLive(page);
      await running.stop();
      await page.locator('.lamp[data-lamp="lost"]').waitFor();
      await page.getByText(/Connection lost/).waitFor();
      running = await own.start('--port', new URL(running.url).port);
      await isLive(page);
      await page.getByText('The server was restarted.').first().waitFor();
    } finally {
      await running.stop();
      own.remove();
    }
  });

  it('fills a view that was opened while the server was away, once it is back', async () => {
    const own = new ServerHome();
    const key = own.createKey('operator', 'high', '--admin');
    let running = await own.start();
    try {
      const page = await openPage('lift', key, { url: running.url });
      await isLive(page);
      await running.stop();
      for (const view of ['keys', 'chat'] as const) {
        await page.goto(`${running.url}/#/${view}`);
        await page
          .getByRole('alert')
          .getByText(/does not answer/)
          .waitFor();
      }
      running = await own.start('--port', new URL(running.url).port);
      await isFilled(page, 'chat');
      await eventually(() => page.getByRole('alert').count()).toBe(0);
      await say(page, 'Hello');
    } finally {
      await running.stop();
      own.remove();
    }
  });

  it('asks for a key, refuses a wrong one, and keeps the right one for the tab alone, or for the device where asked', async () => {
    const page = await openPage('lift');
    const field = page.getByLabel('API key');
    await field.fill('cl-wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page
      .getByRole('alert')
      .getByText(/not known, or was revoked/)
      .waitFor();
    await field.fill(adminKey);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await isLive(page);
    expect(page.url()).not.toContain(adminKey);
    expect(await page.evaluate<string>('JSON.stringify(localStorage) + document.cookie')).not.toContain(
      adminKey,
    );
    await page.getByRole('button', { name: 'Sign out' }).click();
    await field.waitFor();
    expect(await page.evaluate<number>('sessionStorage.length')).toBe(0);
    await field.fill(adminKey);
    await page.getByLabel('Remember on this device').check();
    await page.getByRole('button', { name: 'Sign in' }).click();
    await isLive(page);
    const other = await page.context().newPage();
    await other.goto(page.url());
    await isLive(other);
    await other.getByRole('button', { name: 'Sign out' }).click();
    await other.getByLabel('API key').waitFor();
    expect(await other.evaluate<string>('JSON.stringify(localStorage)')).not.toContain(adminKey);
  });

  it('shows a user without admin rights only their own', async () => {
    const page = await openPage('keys', plainKey);
    await isFilled(page, 'chat');
    expect(await page.getByRole('navigation').getByRole('link').allInnerTexts()).toEqual([
      'Chat',
      'Requests',
      'Batches',
      'Usage',
      'API',
    ]);
    const answer = await say(page, 'Hello');
    await answer.getByRole('link', { name: 'Details' }).click();
    await page.locator('[data-what="ended"]').waitFor();
    await page.getByRole('link', { name: 'All requests' }).click();
    await eventually(() => page.locator('tbody tr').count()).toBe(1);
    expect(tabs.complaints).toEqual([]);
  });

  it('is a log of requests, with those that were refused, by a filter that can be shared', async () => {
    const body = JSON.stringify({ model: 'gpt-9', messages: [{ role: 'user', content: 'Hello' }] });
    const refused = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${plainKey}`, 'content-type': 'application/json' },
      body,
    });
    expect(refused.status).toBe(404);
    const page = await openPage('requests', adminKey);
    await page.getByLabel('Outcome').selectOption('Refused');
    await page.getByRole('searchbox').fill('guest gpt-9');
    const row = page.locator('tbody tr').first();
    await row.getByText("404 the model 'gpt-9' does not exist here", { exact: false }).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(1);
    const shared = await openPage('requests?outcome=refused&q=guest+gpt-9', adminKey);
    expect(page.url()).toBe(shared.url());
    await shared.locator('tbody tr').getByText('guest').waitFor();
    expect(await shared.locator('tbody tr').count()).toBe(1);
    expect(tabs.complaints).toEqual([]);
  });

  it("shows a request's trace, and why its prompt was not cached", async () => {
    const page = await openPage('chat', adminKey);
    await say(page, 'Tell me of the miller and his three sons.');
    await page.getByRole('link', { name: 'Details' }).click();
    for (const words of ['arrived at the server', 'its first token was sampled']) {
      await page.getByText(words).waitFor();
    }
    await page.locator('[data-what="ended"]').waitFor();
    await page.getByText(/had to be computed: /).waitFor();
  });

  it('makes a key, shows it once, and revokes it', async () => {
    const page = await openPage('keys', adminKey);
    await page.getByLabel('Name').fill('<b>visitor</b>');
    await page.getByLabel('Tier').selectOption('low');
    await page.getByRole('button', { name: 'Make key' }).click();
    const secret = await page.locator('.secret code').innerText();
    const asVisitor = () =>
      fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
    expect((await asVisitor()).status).toBe(200);
    await page.getByRole('button', { name: 'I have it' }).click();
    expect(await page.content()).not.toContain(secret);
    const row = page.getByRole('row', { name: '<b>visitor</b>' });
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await row.getByText(/^revoked/).waitFor();
    expect((await asVisitor()).status).toBe(401);
  });

  it('pulls a model with progress, loads and unloads it, and deletes it after asking', async () => {
    const page = await openPage('models', adminKey);
    await page.getByLabel('Model on the hub').fill('hf.co/ann/tiny:Q8_0');
    await page.getByRole('button', { name: 'Pull' }).click();
    await page.getByText('here, and ready to be asked').waitFor();
    const row = page.getByRole('row', { name: /^tiny/ });
    await row.getByRole('button', { name: 'Load' }).click();
    await row.getByText('loaded', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Unload' }).click();
    await row.getByText('unloaded', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
  });

  it('cancels a pull', async () => {
    hub.faults.hangAfter = [1000];
    const page = await openPage('models', adminKey);
    await page.getByLabel('Model on the hub').fill('hf.co/ann/tiny:Q8_0');
    await page.getByRole('button', { name: 'Pull' }).click();
    await page.getByText(/pulling tiny-Q8_0/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(/^cancelled/).waitFor();
  });

  it('finds a model on the hub, says what of it fits, and pulls that; or says why it cannot search', async () => {
    const page = await openPage('models', adminKey);
    const foreign: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url)) foreign.push(request.url());
    });
    const search = async (words: string) => {
      await page.getByLabel('Words to search the hub for').fill(words);
      await page.getByRole('button', { name: 'Search', exact: true }).click();
    };
    await search('nothing');
    await page.getByText('has no model that is called nothing.').waitFor();
    await search('tiny');
    await page.getByText('14.2M parameters · llama · 1,234 downloads').waitFor();
    await page.locator('summary', { hasText: 'ann/tiny' }).press('Enter');
    const files = page.getByRole('table', { name: 'Files of ann/tiny' });
    await eventually(() => files.getByRole('row').allInnerTexts()).toHaveLength(3);
    expect(await hindrances(page)).toEqual([]);
    const large = files.getByRole('row', { name: /F32/ });
    await large.getByText('too large').waitFor();
    expect(await large.getByRole('button').count()).toBe(0);
    await files.getByRole('button', { name: 'Pull ann/tiny:Q8_0' }).click();
    await files.getByText('is here').waitFor();
    const row = page
      .getByRole('table', { name: 'Models of this server' })
      .getByRole('row', { name: /^tiny/ });
    await row.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
    hub.faults.searchStatus = 500;
    await search('tiny');
    await page.getByRole('alert').getByText('answered with status 500 for a search').waitFor();
    hub.faults.searchStatus = undefined;
    expect(foreign).toEqual([]);
  });

  it('runs a small load and shows the report', async () => {
    const page = await openPage('bench', adminKey);
    for (const [label, value] of [
      ['Requests', '4'],
      ['Answer tokens', '8'],
    ] as const) {
      // Firefox would add to what a field of numbers has.
      await page.getByLabel(label).clear();
      await page.getByLabel(label).fill(value);
    }
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('heading', { name: 'Latencies' }).waitFor();
    await eventually(() =>
      page.evaluate<number>(`document.querySelector('.bench-plots img').naturalWidth`),
    ).toBeGreaterThan(0);
    expect(tabs.complaints).toEqual([]);
  });

  it('takes hostile texts for texts', async () => {
    const page = await openPage('models', adminKey);
    await page.getByRole('row', { name: hostileName }).waitFor();
    await page.goto(`${server.url}/#/chat`);
    await isFilled(page, 'chat');
    const foreign: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url) && !request.url().startsWith('data:'))
        foreign.push(request.url());
    });
    const answer = [
      '<script>alert(1)</script><img src="https://example.com/a.png" onerror="alert(2)">',
      '[run](javascript:alert(3)) [go](https://example.com/) ![pic](https://example.com/b.png)',
      'left \u202eright\u202c \u001b[31mred\u0007',
      `\`\`\`html\n<iframe src="https://example.com"></iframe>\n\`\`\`\n\n${'a'.repeat(1_000_000)}`,
    ].join('\n\n');
    await page.route('**/v1/chat/completions', (route) =>
      route.fulfill({
        contentType: 'text/event-stream',
        body: `data: ${JSON.stringify({ choices: [{ delta: { content: answer } }] })}\n\ndata: [DONE]\n\n`,
      }),
    );
    const prompt = '<svg onload=alert(4)> \u202e \u001b[2J';
    await page.getByRole('textbox', { name: 'Message' }).fill(prompt);
    await page.getByRole('button', { name: 'Send' }).click();
    const shown = page.locator('.answer[data-state="done"]');
    await shown.waitFor();
    const text = await shownText(shown);
    expect(text).toContain('<script>alert(1)</script>');
    expect(text).toContain('left ⟨U+202E⟩right⟨U+202C⟩ ␛[31mred␇');
    expect(text).toMatch(/[\d,]+ more characters/);
    expect(await shown.locator('script, img, iframe, svg').count()).toBe(0);
    expect(await shown.locator('a[href^="javascript"]').count()).toBe(0);
    const link = shown.getByRole('link', { name: 'go' });
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer');
    expect(await shownText(page.locator('.said-text'))).toBe('<svg onload=alert(4)> ⟨U+202E⟩ ␛[2J');
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    expect(wide).toBeLessThanOrEqual(0);
    expect(foreign).toEqual([]);
    expect(tabs.complaints).toEqual([]);
  });

  describe.each([false, true])('for everybody (dark: %s)', (dark) => {
    it.each(views)('%s has nothing that keeps people out', async (view) => {
      const page = await openPage(view, adminKey, { dark });
      await isFilled(page, view);
      expect(await hindrances(page)).toEqual([]);
    });

    it('neither has the gate, an answer, nor the page of a request', async () => {
      const page = await openPage('chat', undefined, { dark });
      await page.getByLabel('API key').waitFor();
      expect(await hindrances(page)).toEqual([]);
      await page.getByLabel('API key').fill(adminKey);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await say(page, 'Hello, who are you?');
      expect(await hindrances(page)).toEqual([]);
      await page.getByRole('link', { name: 'Details' }).click();
      await page.locator('[data-what="ended"]').waitFor();
      expect(await hindrances(page)).toEqual([]);
    });
  });

  it('needs no key before there are keys; the user who makes the first one goes on with it', async () => {
    const own = new ServerHome();
    const running = await own.start();
    try {
      const page = await openPage('lift', undefined, { url: running.url });
      await isLive(page);
      // The list is asked for without a key, and reaches the server while the answer with the first key is on its way.
      await page.route('**/admin/keys', async (route) => {
        if (route.request().method() === 'GET') await setTimeout(600);
        await route.continue();
      });
      await delayPosts(page, 'admin/keys', 1200);
      await page.getByRole('link', { name: 'Keys' }).click();
      await page.getByText("The first key is an administrator's.", { exact: false }).waitFor();
      await page.getByLabel('Name').fill('first');
      await page.getByRole('button', { name: 'Make key' }).click();
      await page.getByRole('row', { name: 'first' }).waitFor();
      expect(await page.locator('.secret code').innerText()).toMatch(/^cl-/);
      await page.getByRole('link', { name: 'Lift', exact: true }).click();
      await isLive(page);
      expect(await page.locator('.who').innerText()).toContain('first');
      expect((await fetch(`${running.url}/whoami`)).status).toBe(401);
      expect(tabs.complaints).toEqual([]);
    } finally {
      await running.stop();
      own.remove();
    }
  });
});
