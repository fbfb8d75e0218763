// A first visit, from the address that a new server prints to a long chat and a first key: what every browser must do. It
// runs in Chromium and in Firefox with every `npm run test:system`.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { hindrances } from '../support/hindrances.ts';
import { changeRequests } from '../support/page-requests.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';
import { eventually, isFilled, isLive, say, shownText, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'a first visit' : `a first visit (skipped: ${missingBrowser})`;
const phone = { width: 390, height: 844 };

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const home = new ServerHome();
  let server: ServerProcess;
  const tabs = new Tabs();

  beforeAll(async () => {
    server = await home.start();
  });

  afterAll(() => home.close());

  it('goes from the idle board to the chat, and finds the question among the requests', async () => {
    const page = await tabs.open('', { url: server.url });
    await isLive(page);
    await page
      .getByRole('region', { name: 'Begin here' })
      .getByRole('link', { name: /open the chat/i })
      .click();
    await isFilled(page, 'chat');
    const answer = await say(page, 'Hello, who are you?');
    await answer.getByText(/tokens\/s/).waitFor();
    expect((await shownText(answer.locator('.markdown'))).trim().length).toBeGreaterThan(5);
    await answer.getByRole('link', { name: 'Details' }).click();
    await page.locator('[data-what="ended"]').waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(tabs.complaints).toEqual([]);
  });

  it('sees streams come and go on the board', async () => {
    const page = await tabs.open('lift', { url: server.url });
    await isLive(page);
    const streams = Array.from(
      { length: 4 },
      (_, n) => new StreamClient(server.url, { prompt: `${n} mice who`, max_tokens: 2000, ignore_eos: true }),
    );
    await eventually(() => page.locator('.running tbody tr').count()).toBe(4);
    await page
      .getByRole('img', { name: /^Block map/ })
      .first()
      .press('ArrowRight');
    await page.getByText(/^Block 0 (is|holds)/).waitFor();
    for (const stream of streams) stream.leave();
    await page.getByText('No sequence is running.').waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('keeps a long chat and its composer in sight on a phone, stops by Escape, and finds all after a reload', async () => {
    const page = await tabs.open('chat', { url: server.url, screen: phone });
    await isFilled(page, 'chat');
    await changeRequests(page, 'v1/chat/completions', (body) => ({
      ...body,
      ignore_eos: true,
      max_tokens: body.messages.length < 4 ? 150 : 3000,
    }));
    await say(page, 'Tell me a long story');
    await say(page, 'Another one');
    await page.getByRole('textbox', { name: 'Message' }).fill('And one that never ends');
    await page.getByRole('textbox', { name: 'Message' }).press('Enter');
    await page.locator('.answer[data-state="streaming"] p').first().waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.answer[data-state="stopped"]').waitFor();
    const composer = await page.locator('.composer').boundingBox();
    expect(Math.round((composer?.y ?? 0) + (composer?.height ?? 0))).toBeLessThanOrEqual(phone.height);
    const hiddenPixels = () =>
      page
        .getByRole('log', { name: 'Messages' })
        .evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
    await eventually(hiddenPixels).toBeLessThanOrEqual(1);
    const texts = await page.locator('.answer .markdown').allInnerTexts();
    await page.reload();
    await eventually(() => page.locator('.answer .markdown').allInnerTexts()).toEqual(texts);
    expect(await hindrances(page)).toEqual([]);
    expect(tabs.complaints).toEqual([]);
  });

  it('makes the first key, goes on with it, and is asked for it in another tab', async () => {
    const page = await tabs.open('keys', { url: server.url });
    await page.getByLabel('Name').fill('first');
    await page.getByRole('button', { name: 'Make key' }).click();
    const secret = await page.locator('.secret code').innerText();
    await page.getByRole('link', { name: 'Lift', exact: true }).click();
    await isLive(page);
    const other = await tabs.open('lift', { url: server.url });
    await other.getByLabel('API key').fill(secret);
    await other.getByRole('button', { name: 'Sign in' }).click();
    await isLive(other);
    expect(other.url()).not.toContain(secret);
  });
});
