// Tabs of a real browser for tests of the page, and what a reader does in them.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { browserName, type ColorScheme, startBrowser } from './browser.ts';

/** However slow the machine is: the test's own limit ends what never comes true. */
const PATIENCE_MS = 120_000;

export const eventually = <Value>(read: () => Value) =>
  expect.poll(read, { timeout: PATIENCE_MS, interval: 50 });

interface PageOptions {
  readonly url: string;
  /** As if it had been typed in before. */
  readonly key?: string | undefined;
  readonly dark?: boolean;
  readonly screen?: { readonly width: number; readonly height: number };
}

/** Closes its tabs after each test. */
export class Tabs {
  /** By the colours they prefer, which Firefox cannot change while it runs. */
  readonly #browsers = new Map<ColorScheme, Promise<Browser>>();
  readonly #contexts: BrowserContext[] = [];
  /** What the browser complained of in this test. */
  complaints: string[] = [];
  readonly #downloads = mkdtempSync(join(tmpdir(), 'chairlift-downloads-'));

  constructor() {
    beforeAll(async () => {
      await this.#browserFor('light');
    });
    afterEach(async () => {
      for (const context of this.#contexts.splice(0)) await context.close();
      this.complaints = [];
    });
    afterAll(async () => {
      for (const browser of this.#browsers.values()) await (await browser).close();
      rmSync(this.#downloads, { recursive: true, force: true });
    });
  }

  #browserFor(scheme: ColorScheme): Promise<Browser> {
    const which = browserName === 'firefox' ? scheme : 'light';
    const browser = this.#browsers.get(which) ?? startBrowser({ scheme: which, downloads: this.#downloads });
    this.#browsers.set(which, browser);
    return browser;
  }

  async open(view: string, { url, key, dark, screen }: PageOptions): Promise<Page> {
    const scheme = dark ? 'dark' : 'light';
    const browser = await this.#browserFor(scheme);
    const context = await browser.newContext({
      colorScheme: scheme,
      viewport: screen ?? { width: 1280, height: 720 },
    });
    context.setDefaultTimeout(PATIENCE_MS);
    this.#contexts.push(context);
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    page.on('pageerror', (error) => this.complaints.push(String(error)));
    page.on('dialog', (dialog) => this.complaints.push(`dialog: ${dialog.message()}`));
    if (key !== undefined) await withKey(page, key);
    await page.goto(`${url}/#/${view}`);
    return page;
  }

  /** What the browser saves, once it is whole; Firefox's BiDi names no download that Playwright could wait for. */
  async saved(save: () => Promise<void>): Promise<string> {
    const files = () =>
      readdirSync(this.#downloads, { withFileTypes: true, recursive: true })
        .filter(
          (entry) => entry.isFile() && !entry.name.endsWith('.part') && !entry.name.endsWith('.crdownload'),
        )
        .map((entry) => join(entry.parentPath, entry.name))
        .filter((path) => statSync(path).size > 0);
    const before = new Set(files());
    await save();
    const added = () => files().filter((path) => !before.has(path));
    await eventually(() => added().length).toBe(1);
    return readFileSync(added()[0] as string, 'utf8');
  }
}

export async function withKey(page: Page, key: string): Promise<void> {
  // An empty page, with which a tab begins, has no storage.
  await page.addInitScript(
    `if (location.protocol === 'http:') sessionStorage.setItem('chairlift.key', ${JSON.stringify(key)})`,
  );
}

/** Firefox is started so that it allows it always, and has no such permission. */
export async function allowClipboard(page: Page): Promise<void> {
  if (browserName === 'chromium')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
}

export const isLive = (page: Page) => page.locator('.lamp[data-lamp="live"]').waitFor();

/** A view is there when it has heard from the server. */
export async function isFilled(page: Page, view: string): Promise<void> {
  if (view === 'lift') await isLive(page);
  else if (view === 'chat') await page.locator('.lane-head option').first().waitFor({ state: 'attached' });
  else if (view === 'models' || view === 'keys') await page.locator('tbody tr').first().waitFor();
  else await page.locator('h1').waitFor();
}

/** The text of something in the chat: turns are not laid out before their first frame, and have no text until then. */
export async function shownText(shown: Locator): Promise<string> {
  await eventually(() => shown.innerText()).not.toBe('');
  return shown.innerText();
}

export async function say(page: Page, text: string): Promise<Locator> {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.locator('.turn').last().locator('.answer').last();
  await eventually(() => answer.getAttribute('data-state')).toBe('done');
  return answer;
}
