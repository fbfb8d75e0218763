// The page where administrators have an address of their own: each address links what it has.

import { setTimeout } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'two addresses' : `two addresses (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let adminUrl: string;
  let key: string;

  beforeAll(async () => {
    key = home.createKey('operator', 'high', '--admin');
    server = await home.start('--admin-port', '0');
    adminUrl = /\/admin are on (\S+)/.exec(server.output())?.[1] ?? '';
  });

  const linked = (page: Page) =>
    page.getByRole('navigation', { name: 'Views' }).getByRole('link').allInnerTexts();

  /** Every view that is linked shows itself, and nothing of it is refused. */
  async function visitAll(page: Page): Promise<void> {
    for (const name of (await linked(page)).filter((one) => one !== 'API')) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor({ state: 'attached' });
      // What it asks for comes, or is refused.
      await setTimeout(1000);
      expect((await page.getByRole('alert').allInnerTexts()).join('')).toBe('');
    }
    expect(tabs.complaints).toEqual([]);
  }

  it('links the views of a client at the address for clients, also for an administrator', async () => {
    const page = await tabs.open('', { url: server.url, key });
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    expect(await linked(page)).toEqual(['Chat', 'Requests', 'Batches', 'Usage', 'API']);
    await visitAll(page);
    await page.goto(`${server.url}/#/keys`);
    await page.getByText('address for administrators').waitFor();
    await page.getByRole('link', { name: 'Go to Chat' }).click();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
  });

  it('links all but the chat at that of administrators, whose address clients cannot use', async () => {
    const page = await tabs.open('lift', { url: adminUrl, key });
    await page.getByRole('heading', { name: 'Ended lately' }).waitFor();
    expect(await linked(page)).toEqual([
      'Lift',
      'Requests',
      'Batches',
      'Models',
      'Keys',
      'Usage',
      'Bench',
      'Settings',
      'API',
    ]);
    expect(await page.getByText('Base URL').count()).toBe(0);
    await visitAll(page);
  });
});
