// The view of usage in a real browser: a key sees its own, an administrator all.

import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { hindrances } from '../support/hindrances.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { eventually, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'usage' : `usage (skipped: ${missingBrowser})`;
const messages = [{ role: 'user', content: 'Hello, who are you?' }];
const phone = { width: 390, height: 844 };

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let adminKey: string;
  let guestKey: string;
  let otherKey: string;

  beforeAll(async () => {
    adminKey = home.createKey('operator', 'high', '--admin');
    guestKey = home.createKey('<b>guest</b>', 'normal', '--daily-tokens', '5000', '--max-concurrent', '3');
    otherKey = home.createKey('other', 'low');
    server = await home.start();
    await ask(guestKey);
    await ask(otherKey);
    await ask(otherKey);
    expect((await ask(otherKey, { model: 'gpt-9' })).status).toBe(404);
  });

  const ask = (key: string, more: object = {}) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ messages, max_tokens: 8, ...more }),
    });

  it('shows a key what it has used, what is left of its limits, and nothing of others', async () => {
    const page = await tabs.open('usage', { url: server.url, key: guestKey });
    const figures = page.locator('.figures');
    await figures.getByText('1', { exact: true }).waitFor();
    await page.getByText('3 of 3 left').waitFor();
    const daily = page.locator('[data-limit="daily"]');
    await daily.getByText(/^4,9\d\d of 5,000 left, the next day begins in/).waitFor();
    expect(await page.locator('main').innerText()).not.toContain('other');
    expect(await page.locator('main select').count()).toBe(1);
    await ask(guestKey);
    await figures.getByText('2', { exact: true }).waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('lets an administrator go from all keys to one, and share where they are', async () => {
    const page = await tabs.open('usage', { url: server.url, key: adminKey });
    const table = page.getByRole('table', { name: 'Usage by key' });
    await eventually(() => table.locator('tbody tr').count()).toBe(3);
    await table.getByRole('link', { name: 'other' }).click();
    await page.getByText('This key has no limits').waitFor();
    const refused = page.getByRole('table', { name: 'Refusals by reason' });
    await refused.getByText('404 model_not_found').waitFor();
    await page.getByLabel('Key').selectOption('<b>guest</b>');
    await page.getByText('3 of 3 left').waitFor();
    const shared = await tabs.open(page.url().split('#/')[1] as string, { url: server.url, key: adminKey });
    await shared.getByText('3 of 3 left').waitFor();
    await shared.getByLabel('Key').selectOption('All keys');
    await shared.getByText('Of all keys together.', { exact: false }).waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('is where the list of keys leads', async () => {
    const page = await tabs.open('keys', { url: server.url, key: adminKey });
    await page.getByRole('link', { name: 'Usage of other' }).click();
    await page.getByText('This key has no limits').waitFor();
  });

  it.each([false, true])('keeps nobody out, on a phone either (dark: %s)', async (dark) => {
    const page = await tabs.open('usage', { url: server.url, key: guestKey, dark, screen: phone });
    await page.getByText('3 of 3 left').waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(
      await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
  });
});
