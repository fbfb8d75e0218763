// The page of a server whose default model writes no text.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { writeEncoderFolder } from '../support/encoder-folder.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { allowClipboard, eventually, Tabs } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'an encoder' : `an encoder (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  const [withAnother, alone] = [serverHome(), serverHome()];
  const tabs = new Tabs();
  const folder = join(alone.folder, 'encoder');
  let server: ServerProcess | undefined;
  writeEncoderFolder(folder);

  afterEach(async () => {
    await server?.stop();
  });

  async function copied(page: Page): Promise<string> {
    await allowClipboard(page);
    await page.getByRole('figure').getByRole('button', { name: 'Copy' }).click();
    return page.evaluate<string>('navigator.clipboard.readText()');
  }

  async function runBatch(page: Page): Promise<void> {
    await page.getByText('"model"').first().waitFor();
    const commands = await copied(page);
    execFileSync('sh', ['-ec', commands], { cwd: alone.folder, stdio: 'pipe' });
    await page.getByText('2 of 2 answered').waitFor();
    expect(await page.getByText('failed').count()).toBe(0);
  }

  it('talks to another model in the chat and in the examples', async () => {
    server = await withAnother.start('--model', folder, '--model', `small=${embeddedModelPath}`);
    const chat = await tabs.open('chat', { url: server.url });
    await eventually(() =>
      chat.getByRole('combobox', { name: 'Model' }).locator('option').allInnerTexts(),
    ).toEqual(['small']);
    const batches = await tabs.open('batches', { url: server.url });
    await batches.getByText('"small"').first().waitFor();
    await runBatch(batches);
  });

  it('is embedded with where there is no other, in commands that work as they stand', async () => {
    server = await alone.start('--model', folder);
    const lift = await tabs.open('lift', { url: server.url });
    await lift.getByText('/v1/embeddings').waitFor();
    const answer = execFileSync('sh', ['-ec', await copied(lift)], { stdio: 'pipe' }).toString();
    expect(JSON.parse(answer).data[0].embedding.length).toBeGreaterThan(0);
    const chat = await tabs.open('chat', { url: server.url });
    await chat.getByText('No model here writes text').waitFor();
    const batches = await tabs.open('batches', { url: server.url });
    await batches.getByText('/v1/embeddings').first().waitFor();
    await runBatch(batches);
  });
});
