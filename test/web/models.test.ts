// The list of models in a real browser: what cannot be served, and what can be done with each.

import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { hindrances } from '../support/hindrances.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';
import { eventually, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'models' : `models (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = serverHome();
  const tabs = new Tabs();
  let server: ServerProcess;
  let key: string;
  const folder = join(home.folder, 'models');
  const cut = join(folder, 'cut.gguf');

  beforeAll(async () => {
    key = home.createKey('operator', 'high', '--admin');
    mkdirSync(folder);
    copyFileSync(embeddedModelPath, join(home.folder, 'given.gguf'));
    copyFileSync(embeddedModelPath, join(folder, 'sound.gguf'));
    writeFileSync(cut, readFileSync(embeddedModelPath).subarray(0, 100_000));
    writeFileSync(join(folder, 'text.gguf'), 'This is no model.');
    server = await home.start('--models-folder', folder, '--model', join(home.folder, 'given.gguf'));
  });

  const openModels = (
    more: { dark?: boolean; screen?: { width: number; height: number } } = {},
  ): Promise<Page> => tabs.open('models', { url: server.url, key, ...more });

  const buttons = async (page: Page, name: string) =>
    (
      await page
        .getByRole('row', { name: new RegExp(`^${name}`) })
        .getByRole('button')
        .allInnerTexts()
    ).map((text) => text.split(/\s/)[0]);

  it('shows damaged files with their reason, offers nothing that must fail, and deletes them after asking', async () => {
    const page = await openModels();
    const row = page.getByRole('row', { name: /^cut/ });
    await row.getByText('broken', { exact: true }).waitFor();
    await row.locator('.problem').getByText(cut, { exact: false }).waitFor();
    await page.getByRole('row', { name: /^text/ }).locator('.problem').waitFor();
    expect(await buttons(page, 'cut')).toEqual(['Delete']);
    expect(await buttons(page, 'sound')).toEqual(['Load', 'Delete']);
    // It does not lie in the models folder.
    expect(await buttons(page, 'given')).toEqual(['Unload']);
    await row.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
    expect(existsSync(cut)).toBe(false);
    expect(tabs.complaints).toEqual([]);
  });

  it('offers to unload a model when nobody uses it', async () => {
    const page = await openModels();
    const unload = page.getByRole('button', { name: 'Unload given' });
    const stream = new StreamClient(
      server.url,
      { prompt: 'Once upon a time', max_tokens: 3000, ignore_eos: true },
      { key },
    );
    await eventually(() => unload.isDisabled()).toBe(true);
    stream.leave();
    await eventually(() => unload.isDisabled()).toBe(false);
  });

  it.each([false, true])('keeps nobody out, on a phone either (dark: %s)', async (dark) => {
    const page = await openModels({ dark, screen: { width: 390, height: 844 } });
    await page.locator('.problem').first().waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(
      await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
  });
});
