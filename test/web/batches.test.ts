// The view of batches in a real browser, on the real program.

import { execFileSync } from 'node:child_process';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { hindrances } from '../support/hindrances.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { allowClipboard, eventually, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'batches' : `batches (skipped: ${missingBrowser})`;
const phone = { width: 390, height: 844 };

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let adminKey: string;
  let annKey: string;
  let bobKey: string;

  beforeAll(async () => {
    adminKey = home.createKey('operator', 'high', '--admin');
    annKey = home.createKey('ann', 'normal');
    bobKey = home.createKey('bob', 'normal');
    server = await home.start();
  });

  const openBatches = (key: string, more: { dark?: boolean; screen?: typeof phone } = {}): Promise<Page> =>
    tabs.open('batches', { url: server.url, key, ...more });

  const rows = (page: Page) => page.getByRole('table', { name: 'Batches' }).locator('tbody tr');

  async function submit(key: string, lines: readonly object[]): Promise<string> {
    const headers = { authorization: `Bearer ${key}` };
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([lines.map((line) => JSON.stringify(line)).join('\n')]), 'questions.jsonl');
    const upload = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form });
    const { id } = (await upload.json()) as { id: string };
    const made = await fetch(`${server.url}/v1/batches`, {
      method: 'POST',
      headers,
      body: JSON.stringify({
        input_file_id: id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
        metadata: { note: '<img src=x onerror=alert(1)>' },
      }),
    });
    return ((await made.json()) as { id: string }).id;
  }

  const lineOf = (name: string, body: object) => ({
    custom_id: name,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'Hello' }], ...body },
  });

  /** Some end soon, the others not before the test does. */
  const lasting = Array.from({ length: 60 }, (_, n) =>
    lineOf(`line-${n}`, n < 10 ? { max_tokens: 2 } : { max_tokens: 3000, ignore_eos: true }),
  );

  it('shows who has none how to begin, with commands that work as they stand, and then what became of it', async () => {
    const page = await openBatches(annKey);
    await page.getByRole('heading', { name: 'You have made no batch yet' }).waitFor();
    expect(await page.locator('main').innerText()).not.toContain(annKey);
    await allowClipboard(page);
    await page.getByRole('button', { name: 'Copy' }).click();
    const commands = await page.evaluate<string>('navigator.clipboard.readText()');
    execFileSync('sh', ['-ec', commands], { cwd: home.folder, stdio: 'pipe' });
    const row = rows(page);
    await row.getByText('completed', { exact: true }).waitFor();
    await row.getByText('2 of 2 answered').waitFor();
    const saved = await tabs.saved(() => row.getByRole('button', { name: 'Answers' }).click());
    const lines = saved.trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).custom_id)).toEqual(['first', 'second']);
    expect(await row.getByRole('button', { name: 'Failures' }).count()).toBe(0);
    expect(await row.getByRole('button', { name: 'Cancel' }).count()).toBe(0);
    expect(tabs.complaints).toEqual([]);
  });

  it('shows what is wrong with an input, and lines that failed', async () => {
    await submit(bobKey, [lineOf('good', { max_tokens: 2 }), lineOf('bad', { temperature: -1 })]);
    await submit(bobKey, [{ custom_id: 'x' }, {}]);
    const page = await openBatches(bobKey);
    const [wrong, mixed] = [rows(page).nth(0), rows(page).nth(1)];
    await wrong.getByText('failed', { exact: true }).waitFor();
    await wrong.getByText(/^line 1: /).waitFor();
    await wrong.getByText('1 more').click();
    await wrong.getByText(/^line 2: /).waitFor();
    await mixed.getByText('1 of 2 answered, 1 failed').waitFor();
    await mixed.getByRole('button', { name: 'Failures' }).waitFor();
    await mixed.getByText('<img src=x onerror=alert(1)>').waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('follows one that runs, and calls it off after asking; a key never sees those of another', async () => {
    await submit(annKey, lasting);
    const page = await openBatches(annKey);
    const row = rows(page).first();
    await row.getByText('in progress').waitFor();
    await eventually(() => row.getByText(/^[1-9]\d* of 60 answered$/).count()).toBe(1);
    await row.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Keep it' }).click();
    await row.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the batch' }).click();
    await row.getByText('cancelled', { exact: true }).waitFor();
    expect(await row.getByRole('button', { name: 'Cancel' }).count()).toBe(0);
    await row.getByRole('button', { name: 'Answers' }).waitFor();
    const others = await openBatches(bobKey);
    await rows(others).first().waitFor();
    expect(await rows(others).count()).toBe(2);
    expect(tabs.complaints).toEqual([]);
  });

  it('shows an administrator those of all keys, whom they belong to, and offers no file that is not theirs', async () => {
    const id = await submit(bobKey, lasting);
    const page = await openBatches(adminKey);
    const row = rows(page).first();
    await row.getByText('bob').waitFor();
    await row.getByRole('button', { name: `Cancel ${id}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the batch' }).click();
    await row.getByText('cancelled', { exact: true }).waitFor();
    expect(await rows(page).count()).toBe(5);
    expect(await rows(page).getByRole('button').count()).toBe(0);
    expect(tabs.complaints).toEqual([]);
  });

  it('goes page by page where there are many', async () => {
    for (let n = 0; n < 20; n++) await submit(adminKey, [lineOf('one', { max_tokens: 1 })]);
    const page = await openBatches(adminKey);
    await page.getByRole('link', { name: 'Older' }).click();
    await eventually(() => rows(page).count()).toBe(5);
    await page.getByRole('link', { name: 'Newest' }).click();
    await eventually(() => rows(page).count()).toBe(20);
  });

  it.each([false, true])('keeps nobody out, on a phone either (dark: %s)', async (dark) => {
    const page = await openBatches(bobKey, { dark, screen: phone });
    await rows(page).first().waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(
      await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
  });
});
