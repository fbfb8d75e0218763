// The view of settings in a real browser: what counts, where it comes from, and no secrets.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { hindrances } from '../support/hindrances.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { eventually, isFilled, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'settings' : `settings (skipped: ${missingBrowser})`;
const phone = { width: 390, height: 844 };

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let adminKey: string;
  let plainKey: string;

  beforeAll(async () => {
    adminKey = home.createKey('operator', 'high', '--admin');
    plainKey = home.createKey('guest', 'normal');
    const config = join(home.folder, 'config.json');
    const upstream = { name: 'far', url: 'https://api.example/v1', models: ['large'], key: 'flounder' };
    writeFileSync(config, JSON.stringify({ keepAlive: '2h', upstreams: [upstream] }));
    home.environment = { CHAIRLIFT_BODY_LIMIT: '16MiB' };
    server = await home.start('--config', config, '--kv-type', 'q8');
  });

  const openSettings = (more: { dark?: boolean; screen?: typeof phone } = {}): Promise<Page> =>
    tabs.open('settings', { url: server.url, key: adminKey, ...more });

  const textOf = async (page: Page, name: string) =>
    (await page.getByRole('row', { name: new RegExp(`^${name} `) }).innerText()).split('\t').slice(1, 4);

  it('shows the value that counts, where it comes from and what the default would be', async () => {
    const page = await openSettings();
    await page.getByRole('heading', { name: 'Computing' }).waitFor();
    expect(await textOf(page, 'kvType')).toEqual(['q8', 'command line --kv-type', 'f16']);
    expect(await textOf(page, 'bodyLimit')).toEqual(['16MiB', 'environment CHAIRLIFT_BODY_LIMIT', '8MiB']);
    expect(await textOf(page, 'keepAlive')).toEqual(['2h', 'config file', '10m']);
    expect(await textOf(page, 'logLevel')).toEqual(['info', 'default', '–']);
    expect(await textOf(page, 'threads')).toEqual([expect.stringMatching(/^\d+$/), 'chosen here', '–']);
    expect(tabs.complaints).toEqual([]);
  });

  it('hides secrets, from the page and from what it is sent', async () => {
    const page = await openSettings();
    await page
      .getByRole('row', { name: /^upstreams / })
      .getByText('(hidden)')
      .waitFor();
    expect(await page.content()).not.toContain('flounder');
    const answer = await fetch(`${server.url}/admin/settings`, {
      headers: { authorization: `Bearer ${adminKey}` },
    });
    expect(await answer.text()).not.toContain('flounder');
  });

  it('is searched by name, flag, value and meaning, and shows what was given alone', async () => {
    const page = await openSettings();
    const rows = page.locator('tbody tr');
    await page.getByRole('searchbox').fill('--kv-type');
    await eventually(() => rows.count()).toBe(1);
    await page.getByRole('searchbox').fill('halves memory');
    await eventually(() => rows.count()).toBe(1);
    await page.getByRole('searchbox').fill('xyzzy');
    await page.getByText('No setting is like that.').waitFor();
    await page.getByRole('searchbox').fill('');
    await page.getByLabel('Only those that were given').check();
    await eventually(() => rows.locator('th').allInnerTexts()).toEqual([
      'port',
      'upstreams',
      'keepAlive',
      'kvType',
      'database',
      'bodyLimit',
    ]);
  });

  it('is for administrators alone', async () => {
    const page = await tabs.open('settings', { url: server.url, key: plainKey });
    await isFilled(page, 'chat');
    expect(await page.getByRole('link', { name: 'Settings' }).count()).toBe(0);
  });

  it('shows what the command shows', async () => {
    const page = await openSettings();
    const command = home.run(
      'config',
      '--config',
      join(home.folder, 'config.json'),
      '--kv-type',
      'q8',
      '--port',
      '0',
    );
    await page.getByRole('heading', { name: 'Computing' }).waitFor();
    const shown = await page
      .locator('tbody tr')
      .evaluateAll((all) => all.map((row) => [row.children[0]?.textContent, row.children[1]?.textContent]));
    const written = command
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.split(/ {2,}/).slice(0, 2));
    expect(shown).toEqual(written.map(([name, value]) => [name, value === '(unset)' ? 'unset' : value]));
  });

  it.each([false, true])('keeps nobody out, on a phone either (dark: %s)', async (dark) => {
    const page = await openSettings({ dark, screen: phone });
    await page.getByRole('heading', { name: 'Computing' }).waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(
      await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
  });
});
