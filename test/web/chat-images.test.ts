// Images in the chat, in a real browser, on the real program with a tiny model that reads them.

import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserName, missingBrowser } from '../support/browser.ts';
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

  /** As a reader drops a file on the page. */
  async function drop(
    page: Page,
    name: string,
    type: string,
    bytes: Buffer,
    place = '.composer',
  ): Promise<void> {
    const data = await page.evaluateHandle(
      `(() => {
        const bytes = Uint8Array.from(atob(${JSON.stringify(bytes.toString('base64'))}), (one) => one.charCodeAt(0));
        const data = new DataTransfer();
        data.items.add(new File([bytes], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
        return data;
      })()`,
    );
    await page.dispatchEvent(place, 'drop', { dataTransfer: data });
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

  it('takes what is dropped on a conversation, and an image whatever it is called', async () => {
    const { page } = await open();
    await drop(page, 'named.txt', 'text/plain', picture('tiny-31x17.png'), '.turns');
    await page.locator('.composer .thumbnail').waitFor();
    await drop(page, 'paper.pdf', 'application/pdf', Buffer.from('%PDF-1.7 \xff\xfe', 'latin1'), '.turns');
    await page.getByText('paper.pdf is no text').waitFor();
    expect(await page.locator('.composer .chip').count()).toBe(1);
  });

  // Firefox makes no event with a clipboard of one's own.
  it.skipIf(browserName === 'firefox')(
    'pastes text that comes with a picture of it as text, and a picture alone as an image',
    async () => {
      const { page } = await open();
      const paste = (withText: boolean) =>
        page.evaluate(
          `(() => {
          const bytes = Uint8Array.from(atob(${JSON.stringify(picture('tiny-31x17.png').toString('base64'))}), (one) => one.charCodeAt(0));
          const data = new DataTransfer();
          data.items.add(new File([bytes], 'image.png', { type: 'image/png' }));
          if (${withText}) data.setData('text/plain', 'cells');
          const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
          return document.querySelector('.composer textarea').dispatchEvent(event);
        })()`,
        );
      // Whether the browser goes on and pastes the text itself.
      expect(await paste(true)).toBe(true);
      expect(await paste(false)).toBe(false);
      await page.locator('.composer .thumbnail').waitFor();
      expect(await page.locator('.composer .thumbnail').count()).toBe(1);
    },
  );

  it('keeps images of a message that is edited, unless they are taken out, and shows them large', async () => {
    const { page, asked } = await open();
    await drop(page, 'tiny.png', 'image/png', picture('tiny-31x17.png'));
    await drop(page, 'one.png', 'image/png', picture('one-1x1.png'));
    await eventually(() => page.locator('.composer .thumbnail').count()).toBe(2);
    await say(page, '');
    await page.getByRole('button', { name: 'Show tiny.png' }).click();
    const shown = page.getByRole('dialog', { name: 'tiny.png' }).locator('img');
    await eventually(() => shown.getAttribute('src')).toBe(sentImages(asked[0])[0]);
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    const form = page.locator('.editing');
    await form.getByRole('button', { name: 'Remove one.png' }).click();
    await form.getByRole('button', { name: 'Send' }).click();
    await eventually(() => asked.length).toBe(2);
    expect(asked.map((body) => sentImages(body).length)).toEqual([2, 1]);
    expect(sentImages(asked[1])).toEqual(sentImages(asked[0]).slice(0, 1));
  });

  it('exports images with their conversation, and another browser sends them', async () => {
    const { page, asked } = await open();
    await drop(page, 'tiny.png', 'image/png', picture('tiny-31x17.png'));
    await page.locator('.composer .thumbnail').waitFor();
    await say(page, 'What is this?');
    const json = await tabs.saved(async () => {
      await page.getByRole('button', { name: 'Actions for conversation What is this?' }).click();
      await page.getByRole('button', { name: 'Export as JSON' }).click();
    });
    const other = await open();
    const file = { name: 'tiny.json', mimeType: 'application/json', buffer: Buffer.from(json) };
    await other.page.getByLabel('Import').setInputFiles(file);
    await other.page.locator('.turn .picture').waitFor();
    await other.page.reload();
    await isFilled(other.page, 'chat');
    await say(other.page, 'And now?');
    expect(sentImages(other.asked[0])).toEqual(sentImages(asked[0]));
    expect(sentImages(asked[0])).toHaveLength(1);
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
