// Tabs of a real browser for tests of the page, and what a reader does in them.

import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { startBrowser } from './browser.ts';

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
  #browser: Browser | undefined;
  readonly #contexts: BrowserContext[] = [];
  /** What the browser complained of in this test. */
  complaints: string[] = [];

  constructor() {
    beforeAll(async () => {
      this.#browser = await startBrowser();
    });
    afterEach(async () => {
      for (const context of this.#contexts.splice(0)) await context.close();
      this.complaints = [];
    });
    afterAll(() => this.#browser?.close());
  }

  async open(view: string, { url, key, dark, screen }: PageOptions): Promise<Page> {
    const context = await (this.#browser as Browser).newContext({
      colorScheme: dark ? 'dark' : 'light',
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
}

export async function withKey(page: Page, key: string): Promise<void> {
  await page.addInitScript(`sessionStorage.setItem('chairlift.key', ${JSON.stringify(key)})`);
}

export const isLive = (page: Page) => page.locator('.lamp[data-lamp="live"]').waitFor();

/** A view is there when it has heard from the server. */
export async function isFilled(page: Page, view: string): Promise<void> {
  if (view === 'lift') await isLive(page);
  else if (view === 'chat') await page.locator('.lane-head option').first().waitFor({ state: 'attached' });
  else if (view === 'models' || view === 'keys') await page.locator('tbody tr').first().waitFor();
  else await page.locator('h1').waitFor();
}

export async function say(page: Page, text: string): Promise<Locator> {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.locator('.turn').last().locator('.answer').last();
  await eventually(() => answer.getAttribute('data-state')).toBe('done');
  return answer;
}
