// Images in the chat, in a real browser, on the real program with a tiny model that reads them.

import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { changeRequests, type RequestBody } from '../support/page-requests.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';
import { eventually, isFilled, say, Tabs } from '../support/tabs.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const skipped = missingBrowser ?? (hasTestdata ? undefined : 'no model that reads images');
const title = skipped === undefined ? 'images in the chat' : `images in the chat (skipped: ${skipped})`;

interface ImagePart {
  readonly type: string;
  readonly image_url?: { readonly url: string };
}

describe.skipIf(skipped !== undefined)(title, () => {
  let home: ServerHome;
  let server: ServerProcess;
  let adminKey: string;
  const tabs = new Tabs();

  beforeAll(async () => {
    home = new ServerHome();
    adminKey = home.createKey('operator', 'high', '--admin');
    const eyes = `eyes=${testdata('vision', 'qwen3_vl')}`;
    server = await home.start(
      '--backend',
      'reference',
      '--model',
      eyes,
      '--model',
      `blind=${embeddedModelPath}`,
    );
  });

  afterAll(async () => {
    await server?.stop();
    home?.remove();
  });

  const picture = (name: string) => readFileSync(testdata('vision', 'images', name));

  /** Gives the bodies that the page sends. */
  async function open(screen?: { width: number; height: number }) {
    const page = await tabs.open('chat', { url: server.url, key: adminKey, ...(screen && { screen }) });
    await isFilled(page, 'chat');
    const asked: RequestBody[] = [];
    await changeRequests(page, 'v1/chat/completions', (body) => {
      asked.push(body);
      // The tiny model says nothing of sense: a word of it is enough.
      return { ...body, max_tokens: 2 };
    });
    return { page, asked };
  }

  /** As a reader drops a file on the composer. */
  async function drop(page: Page, name: string, type: string, bytes: Buffer): Promise<void> {
    const data = await page.evaluateHandle(
      `(() => {
        const bytes = Uint8Array.from(atob(${JSON.stringify(bytes.toString('base64'))}), (one) => one.charCodeAt(0));
        const data = new DataTransfer();
        data.items.add(new File([bytes], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
        return data;
      })()`,
    );
    await page.dispatchEvent('.composer', 'drop', { dataTransfer: data });
  }

  const sentImages = (body: RequestBody | undefined): string[] =>
    ((body?.messages ?? []) as readonly { readonly content: unknown }[]).flatMap(({ content }) =>
      Array.isArray(content)
        ? (content as readonly ImagePart[]).flatMap(({ image_url: image }) => image?.url ?? [])
        : [],
    );

  it('shows an image that was dropped, sends it as it is, and sends it again after a reload', async () => {
    const { page, asked } = await open();
    const bytes = picture('tiny-31x17.png');
    await drop(page, 'tiny.png', 'image/png', bytes);
    await page.locator('.composer .thumbnail').waitFor();
    await say(page, 'What is this?');
    expect(sentImages(asked[0])).toEqual([`data:image/png;base64,${bytes.toString('base64')}`]);
    await page.locator('.turn .picture').waitFor();
    expect(await page.locator('.composer .thumbnail').count()).toBe(0);
    await page.reload();
    await isFilled(page, 'chat');
    await page.locator('.turn .picture').waitFor();
    await say(page, 'And now?');
    expect(sentImages(asked.at(-1))).toEqual(sentImages(asked[0]));
    const stored = await page.evaluate<number>('JSON.stringify(localStorage).length');
    expect(stored).toBeLessThan(64 * 1024);
    expect(tabs.complaints).toEqual([]);
  });

  it('makes large images smaller before it sends them, and can leave one out again', async () => {
    const { page, asked } = await open();
    const { default: sharp } = await import('sharp');
    const create = { width: 3000, height: 1000, channels: 3, background: '#336699' } as const;
    const large = await sharp({ create }).png().toBuffer();
    const attach = page.getByLabel('Attach images and files of text');
    await attach.setInputFiles([
      { name: 'large.png', mimeType: 'image/png', buffer: large },
      { name: 'small.png', mimeType: 'image/png', buffer: picture('one-1x1.png') },
    ]);
    await page.getByRole('button', { name: 'Remove small.png' }).click();
    await say(page, 'What is this?');
    const [url = ''] = sentImages(asked[0]);
    expect(sentImages(asked[0])).toHaveLength(1);
    expect(url).toMatch(/^data:image\/jpeg;base64,/);
    const sent = await sharp(Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')).metadata();
    expect([sent.width, sent.height]).toEqual([2048, 683]);
  });

  it('says which models read images where the chosen one does not, and takes none', async () => {
    const { page } = await open();
    await page.locator('.lane-head select').selectOption('blind');
    await drop(page, 'tiny.png', 'image/png', picture('tiny-31x17.png'));
    await page.getByText('blind does not read images. These do: eyes.').waitFor();
    expect(await page.locator('.composer .thumbnail').count()).toBe(0);
    await page.getByLabel('Attach files of text').waitFor({ state: 'attached' });
  });

  it('refuses a file that is no image, though it is called one', async () => {
    const { page } = await open();
    await drop(page, 'not.png', 'image/png', Buffer.from('no image at all'));
    await page.getByText('not.png is no image that this browser reads.').waitFor();
  });

  it('has room for images and what is said of them on a small screen', async () => {
    const { page } = await open({ width: 390, height: 800 });
    for (let count = 1; count <= 6; count++) {
      await drop(page, `tall${count}.webp`, 'image/webp', picture('tall-64x500.webp'));
      await eventually(() => page.locator('.composer .thumbnail').count()).toBe(count);
    }
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
    expect(wide).toBeLessThanOrEqual(390);
    const send = await page.getByRole('button', { name: 'Send' }).boundingBox();
    expect((send?.x ?? 0) + (send?.width ?? 0)).toBeLessThanOrEqual(390);
  });
});
