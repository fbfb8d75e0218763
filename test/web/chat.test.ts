// The chat in a real browser, on the real program: long conversations, branches, outages, files.

import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingBrowser } from '../support/browser.ts';
import { startStandIn } from '../support/completion-stand-in.ts';
import { changeRequests, type RequestBody } from '../support/page-requests.ts';
import { ServerHome, type ServerProcess } from '../support/server-process.ts';
import { eventually, isFilled, isLive, say, shownText, Tabs, withKey } from '../support/tabs.ts';

const title = missingBrowser === undefined ? 'the chat' : `the chat (skipped: ${missingBrowser})`;

describe.skipIf(missingBrowser !== undefined)(title, () => {
  let home: ServerHome;
  let server: ServerProcess;
  let adminKey: string;
  const tabs = new Tabs();

  beforeAll(async () => {
    home = new ServerHome();
    adminKey = home.createKey('operator', 'high', '--admin');
    server = await home.start();
  });

  afterAll(async () => {
    await server?.stop();
    home?.remove();
  });

  const openChat = (options: { screen?: { width: number; height: number } } = {}): Promise<Page> =>
    tabs.open('chat', { url: server.url, key: adminKey, ...options });

  /** Answers in place of the server, a piece at a time. */
  async function answerWith(page: Page, pieces: readonly string[]): Promise<void> {
    await page.route('**/v1/chat/completions', (route) => {
      const events = pieces.map(
        (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`,
      );
      return route.fulfill({ contentType: 'text/event-stream', body: `${events.join('')}data: [DONE]\n\n` });
    });
  }

  it('chats with the embedded model, and knows what was said after a reload', async () => {
    const page = await openChat();
    const answer = await say(page, 'Hello, who are you?');
    const text = await shownText(answer.locator('.markdown'));
    expect(text.trim().length).toBeGreaterThan(5);
    await answer.getByText(/tokens\/s/).waitFor();
    await page.reload();
    await eventually(() => page.locator('.answer .markdown').first().innerText()).toBe(text);
    expect(await page.evaluate<string>('JSON.stringify(localStorage)')).not.toContain(adminKey);
    expect(tabs.complaints).toEqual([]);
  });

  it('goes on in one tab with what was said in another, and loses nothing of either', async () => {
    const first = await openChat();
    await say(first, 'Hello');
    const second = await first.context().newPage();
    await withKey(second, adminKey);
    await second.goto(first.url());
    await isFilled(second, 'chat');
    await say(first, 'What is 3 + 4?');
    await eventually(() => second.locator('.answer[data-state="done"]').count()).toBe(2);
    await say(second, 'What is 5 + 6?');
    await eventually(() => first.locator('.said-text').allInnerTexts()).toEqual([
      'Hello',
      'What is 3 + 4?',
      'What is 5 + 6?',
    ]);
    await first.reload();
    await eventually(() => first.locator('.said-text').count()).toBe(3);
    await second.getByRole('button', { name: /^Actions for conversation/ }).click();
    await second.getByRole('button', { name: 'Delete' }).click();
    await second.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await eventually(() => first.locator('.said-text').count()).toBe(0);
    expect(tabs.complaints).toEqual([]);
  });

  it('keeps what is written until there is a model to ask', async () => {
    const page = await tabs.open('lift', { url: server.url, key: adminKey });
    await isLive(page);
    const held: Route[] = [];
    await page.route('**/v1/models', (route) => {
      held.push(route);
    });
    await page.goto(`${server.url}/#/chat`);
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.fill('Hello');
    await message.press('Enter');
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
    await eventually(() => held.length).toBe(1);
    await held[0]?.continue();
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.answer[data-state="done"]').waitFor();
    expect(await message.inputValue()).toBe('');
  });

  it('asks two lanes side by side, and shows how probable tokens were', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    await page.getByRole('button', { name: 'Side by side' }).click();
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByLabel('Show how probable').first().check();
    await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
    await page.getByRole('button', { name: 'Send' }).click();
    await eventually(() => page.locator('.answer[data-state="done"]').count()).toBe(2);
    const model = await page.locator('.lane-head select').first().inputValue();
    const names = page.locator('.answer-name');
    expect(await names.allTextContents()).toEqual([`Answer A: ${model}`, `Answer B: ${model}`]);
    await page.getByRole('button', { name: 'Token by token' }).click();
    await page.getByRole('listbox', { name: 'Tokens' }).getByRole('option').first().waitFor();
    await page.getByText(/^Token 1 of \d+$/).waitFor();
  });

  it('stops an answer, answers again, and lets a question be put differently, and keeps every branch', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    const stories = await longAnswers(page);
    await page.getByRole('textbox', { name: 'Message' }).fill('Tell me a long story');
    await page.getByRole('textbox', { name: 'Message' }).press('Enter');
    await page.locator('.answer[data-state="streaming"] p').first().waitFor();
    await page
      .locator('.answer[data-state="streaming"]')
      .getByText(/tokens\/s/)
      .waitFor();
    await page.keyboard.press('Escape');
    const stopped = page.locator('.answer[data-state="stopped"]');
    await stopped.waitFor();
    const begun = await shownText(stopped.locator('.markdown'));
    await stories.end();
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.locator('.answer[data-state="done"]').waitFor();
    expect(await shownText(page.locator('.branches'))).toContain('2/2');
    await say(page, 'Thank you');
    await page.getByRole('textbox', { name: 'Message' }).press('ArrowUp');
    expect(await page.getByRole('textbox', { name: 'Your message' }).inputValue()).toBe('Thank you');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Edit' }).first().click();
    await page.getByRole('textbox', { name: 'Your message' }).fill('Hello');
    await page.keyboard.press('Enter');
    await page.locator('.said-text', { hasText: /^Hello$/ }).waitFor();
    await page.locator('.answer[data-state="done"]').waitFor();
    expect(await page.locator('.turn').count()).toBe(1);
    expect(await shownText(page.locator('.branches'))).toContain('3/3');
    const previous = page.getByRole('button', { name: 'Previous branch' });
    await previous.click();
    await eventually(() => page.locator('.said-text').allInnerTexts()).toEqual([
      'Tell me a long story',
      'Thank you',
    ]);
    await previous.first().click();
    await eventually(() => page.locator('.answer .markdown').innerText()).toBe(begun);
    await page.reload();
    await eventually(() => page.locator('.answer .markdown').innerText()).toBe(begun);
    await page.getByRole('button', { name: 'Continue' }).last().click();
    await page.locator('.answer[data-state="done"]').waitFor();
    expect((await shownText(page.locator('.answer .markdown'))).startsWith(begun)).toBe(true);
    expect(tabs.complaints).toEqual([]);
  });

  it.each([
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
    { width: 1024, height: 480 },
  ])('keeps the end of a long conversation and the composer in sight ($width×$height)', async (screen) => {
    const page = await openChat({ screen });
    await isFilled(page, 'chat');
    await answerWith(
      page,
      Array.from({ length: 12 }, (_, n) => `Paragraph ${n} of the answer.\n\n`),
    );
    const messages = page.getByRole('log', { name: 'Messages' });
    const hiddenPixels = () =>
      messages.evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
    const pageOverflow = () => page.evaluate<number>('document.documentElement.scrollHeight - innerHeight');
    const composerEnd = async () => {
      const box = await page.locator('.composer').boundingBox();
      return Math.round((box?.y ?? 0) + (box?.height ?? 0));
    };
    for (let turn = 1; turn <= 5; turn++) {
      await page.getByRole('textbox', { name: 'Message' }).fill(`Question ${turn}`);
      await page.getByRole('button', { name: 'Send' }).click();
      await eventually(() => page.locator('.answer[data-state="done"]').count()).toBe(turn);
      await eventually(hiddenPixels).toBeLessThanOrEqual(1);
      expect(await composerEnd()).toBeLessThanOrEqual(screen.height);
      expect(await pageOverflow()).toBeLessThanOrEqual(0);
    }
    await messages.evaluate((box) => {
      box.scrollTop = 0;
    });
    await eventually(() => page.locator('.said-text').first().isVisible()).toBe(true);
    expect(await hiddenPixels()).toBeGreaterThan(500);
    await page.getByRole('textbox', { name: 'Message' }).fill('Question 6');
    await page.getByRole('button', { name: 'Send' }).click();
    await eventually(() => page.locator('.answer[data-state="done"]').count()).toBe(6);
    await eventually(hiddenPixels).toBeLessThanOrEqual(1);
    await page.reload();
    await eventually(() => page.locator('.answer').count()).toBe(6);
    await eventually(hiddenPixels).toBeLessThanOrEqual(1);
    expect(await composerEnd()).toBeLessThanOrEqual(screen.height);
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Side by side' }).click();
    await eventually(() => page.getByLabel('System prompt').count()).toBe(2);
    expect(await composerEnd()).toBeLessThanOrEqual(screen.height);
  });

  it('lets a question be asked again whose answer had not begun when the page was loaded anew', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    await page.route('**/v1/chat/completions', () => {});
    await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.answer[data-state="streaming"]').waitFor();
    await page.reload();
    await page.unroute('**/v1/chat/completions');
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.locator('.answer[data-state="done"]').waitFor();
    expect(await page.locator('.said-text').allInnerTexts()).toEqual(['Hello']);
  });

  it('shows reasoning and calls as what they are, and hands on what tools gave back', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    const asked: RequestBody[] = [];
    const call = {
      index: 0,
      id: 'call_1',
      type: 'function',
      function: { name: 'weather', arguments: '{"in":"Bern"}' },
    };
    await changeRequests(page, 'v1/chat/completions', (body) => {
      asked.push(body);
      return body;
    });
    await page.route('**/v1/chat/completions', (route) => {
      const deltas =
        asked.length === 1
          ? [{ reasoning_content: 'They want to know the weather.' }, { tool_calls: [call] }]
          : [{ content: 'It snows.' }];
      const events = deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`);
      return route.fulfill({ contentType: 'text/event-stream', body: `${events.join('')}data: [DONE]\n\n` });
    });
    const answer = await say(page, 'How is the weather in Bern?');
    await answer.getByText('Reasoning').click();
    await answer.getByText('They want to know the weather.').waitFor();
    await answer.getByRole('heading', { name: 'calls weather' }).waitFor();
    await answer.getByLabel('What it gave back').fill('snow');
    await answer.getByRole('button', { name: 'Send what they gave back' }).click();
    await page.getByText('It snows.').waitFor();
    expect(asked[1]?.messages.at(-1)).toEqual({ role: 'tool', tool_call_id: 'call_1', content: 'snow' });
    expect(asked[1]?.messages.at(-2)).toMatchObject({ role: 'assistant', tool_calls: [{ id: 'call_1' }] });
  });

  it('finds after a reload what had been written until then', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    await longAnswers(page);
    await page.getByRole('textbox', { name: 'Message' }).fill('Tell me a long story');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.answer[data-state="streaming"] p').first().waitFor();
    await page.reload();
    const stopped = page.locator('.answer[data-state="stopped"] .markdown');
    await eventually(() => stopped.innerText()).not.toBe('');
  });

  it('waits while the server is away, says so, and goes on by itself', async () => {
    const own = new ServerHome();
    const first = await own.start();
    const page = await tabs.open('chat', { url: first.url });
    await isFilled(page, 'chat');
    const stories = await longAnswers(page);
    await page.getByRole('textbox', { name: 'Message' }).fill('Tell me a long story');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.answer[data-state="streaming"] p').first().waitFor();
    first.signal('SIGKILL');
    await first.exited;
    const waiting = page.locator('.answer[data-state="waiting"]');
    await waiting.getByText('the answer goes on when the server is back').waitFor();
    const begun = await shownText(waiting.locator('.markdown'));
    await stories.end(20);
    const second = await own.start('--port', new URL(first.url).port);
    try {
      await page.locator('.answer[data-state="done"]').waitFor();
      const whole = await shownText(page.locator('.answer .markdown'));
      expect(whole.startsWith(begun.trimEnd())).toBe(true);
      expect(whole.length).toBeGreaterThan(begun.length);
    } finally {
      await second.stop();
      own.remove();
    }
  });

  it('begins anew after an outage, or in a branch, where another server’s model cannot go on', async () => {
    const own = new ServerHome();
    const far = await startStandIn(() => ({
      kind: 'stream',
      chunks: isSlow ? 200 : 3,
      gapMs: isSlow ? 50 : 0,
    }));
    let isSlow = true;
    const upstreams = JSON.stringify([{ name: 'far', url: `${far.url}/v1`, models: ['stand-in'] }]);
    const first = await own.start('--upstreams', upstreams);
    const page = await tabs.open('chat', { url: first.url });
    await isFilled(page, 'chat');
    await page.getByRole('combobox', { name: 'Model' }).selectOption('stand-in');
    const answer = page.locator('.answer');
    const ask = async () => {
      await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('.answer[data-state="streaming"] p').last().waitFor();
    };
    await ask();
    first.signal('SIGKILL');
    await first.exited;
    await answer.getByText('the answer goes on when the server is back').waitFor();
    isSlow = false;
    const second = await own.start('--upstreams', upstreams, '--port', new URL(first.url).port);
    try {
      await page.locator('.answer[data-state="done"]').waitFor();
      const whole = await shownText(answer.locator('.markdown'));
      isSlow = true;
      await ask();
      await page.keyboard.press('Escape');
      await page.locator('.answer[data-state="stopped"]').waitFor();
      isSlow = false;
      await page.getByRole('button', { name: 'Continue' }).last().click();
      await eventually(() => page.locator('.answer[data-state="done"]').count()).toBe(2);
      expect(await shownText(answer.last().locator('.markdown'))).toBe(whole);
      expect(await shownText(page.locator('.branches'))).toContain('2/2');
    } finally {
      await second.stop();
      await far.close();
      own.remove();
    }
  });

  it('says what to do where a conversation has become too long for its model', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    await page.getByRole('textbox', { name: 'Message' }).fill('snow '.repeat(5000));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.answer[data-state="failed"]').getByText('Begin a new conversation').waitFor();
  });

  it('draws code, formulas, tables and entities, and asks no one else for anything', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    const foreign: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url)) foreign.push(request.url());
    });
    await answerWith(page, [
      '5 &lt; 6 &copy;\n\n```python\nreturn 1 # one\n```\n\n',
      '| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n',
      'Costs $5 or $6, and $x^2$ or \\(y_1\\).\n\n$$\\frac{a}{b}$$\n\n$\\bad{$ <b>bold</b>',
    ]);
    const answer = await say(page, 'Show me');
    await answer.locator('.hljs-keyword', { hasText: 'return' }).waitFor();
    await eventually(() => answer.locator('math').count()).toBe(3);
    expect(await answer.locator('math[display="block"] mfrac').count()).toBe(1);
    expect(await shownText(answer.locator('p').first())).toBe('5 < 6 ©');
    expect(await shownText(answer)).toContain('Costs $5 or $6, and');
    expect(await shownText(answer)).toContain('<b>bold</b>');
    expect(await shownText(answer.locator('td[data-align="right"]'))).toBe('2');
    expect(foreign).toEqual([]);
    expect(tabs.complaints).toEqual([]);
  });

  it('finds, renames, exports and imports conversations', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    await answerWith(page, ['The *first* answer']);
    await say(page, 'About horses');
    await page.getByRole('button', { name: 'New conversation' }).click();
    await say(page, 'About ships');
    const list = page.getByRole('complementary', { name: 'Conversations' });
    await list.getByRole('searchbox').fill('horses');
    await eventually(() => list.getByRole('link').allInnerTexts()).toEqual(['About horses']);
    await list.getByRole('link').click();
    await list.getByRole('button', { name: /^Actions for/ }).click();
    await list.getByRole('button', { name: 'Rename' }).click();
    await list.getByRole('textbox', { name: 'Name of the conversation' }).fill('Horses & co');
    await page.keyboard.press('Enter');
    await list.getByRole('link', { name: 'Horses & co' }).waitFor();
    const exported = async (name: string) => {
      await list.getByRole('button', { name: /^Actions for/ }).click();
      return tabs.saved(() => list.getByRole('button', { name }).click());
    };
    expect(await exported('Export as Markdown')).toMatch(
      /^# Horses & co\n\n## You\n\nAbout horses\n\n## .+\n\nThe \*first\* answer\n$/,
    );
    const json = await exported('Export as JSON');
    await list.getByRole('button', { name: /^Actions for/ }).click();
    await list.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await list.getByText('None has these words.').waitFor();
    await list.getByLabel('Import').setInputFiles(file('horses.json', json));
    await list.getByRole('link', { name: 'Horses & co' }).waitFor();
    await eventually(() => page.locator('.said-text').allInnerTexts()).toEqual(['About horses']);
    await list.getByLabel('Import').setInputFiles(file('x.json', '{}'));
    await list.getByText('x.json is no conversation').waitFor();
    expect(tabs.complaints).toEqual([]);
  });

  it('sends files of text with a message, and keeps answers to a schema', async () => {
    const page = await openChat();
    await isFilled(page, 'chat');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('TEXTAREA');
    const attach = page.getByLabel('Attach files of text');
    await attach.setInputFiles([
      file('notes.md', 'Buy *milk*.'),
      file('a.bin', Buffer.from([137, 80, 0, 255])),
    ]);
    await page.getByText('a.bin is no text').waitFor();
    await page.getByRole('button', { name: 'Remove notes.md' }).waitFor();
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByText('JSON schema', { exact: true }).click();
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer' } },
      required: ['n'],
      additionalProperties: false,
    };
    await page.getByLabel('Answers keep to it').fill(JSON.stringify(schema));
    const asked: RequestBody[] = [];
    await changeRequests(page, 'v1/chat/completions', (body) => {
      asked.push(body);
      return body;
    });
    const answer = await say(page, 'What is to be bought?');
    expect(asked[0].messages).toEqual([
      { role: 'user', content: 'What is to be bought?\n\nnotes.md:\n```\nBuy *milk*.\n```' },
    ]);
    expect(JSON.parse(await shownText(answer.locator('.markdown')))).toEqual({ n: expect.any(Number) });
    expect(tabs.complaints).toEqual([]);
  });

  /** Makes answers long, until they are to end by themselves again. */
  async function longAnswers(page: Page): Promise<{ end(tokens?: number): Promise<void> }> {
    let most: number | undefined = 3000;
    await changeRequests(page, 'v1/chat/completions', (body) => ({
      ...body,
      ...(most && { ignore_eos: true, max_tokens: most }),
    }));
    return {
      end: async (tokens) => {
        most = tokens;
      },
    };
  }
});

function file(name: string, content: string | Buffer): { name: string; mimeType: string; buffer: Buffer } {
  return { name, mimeType: '', buffer: Buffer.from(content as string) };
}
