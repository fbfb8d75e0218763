// What a page asks, read or changed on its way out. It is done in the page: by WebDriver BiDi, which Firefox speaks, the
// bodies of requests cannot be read.

import type { Page } from 'playwright-core';

// biome-ignore lint/suspicious/noExplicitAny: a body of any protocol
export type RequestBody = any;

/** Every request to a path that ends so goes out with the body that `change` makes of its own. */
export async function changeRequests(
  page: Page,
  endOfPath: string,
  change: (body: RequestBody) => RequestBody,
): Promise<void> {
  await page.exposeFunction('changedBody', (body: string) => JSON.stringify(change(JSON.parse(body))));
  await inPage(
    page,
    `const ask = window.fetch;
    window.fetch = async (path, options) =>
      ask(path, String(path).endsWith(${JSON.stringify(endOfPath)}) && options.body
        ? { ...options, body: await changedBody(options.body) }
        : options);`,
  );
}

/** An answer to a POST of this path comes so much later. */
export async function delayPosts(page: Page, endOfPath: string, delayMs: number): Promise<void> {
  await inPage(
    page,
    `const ask = window.fetch;
    window.fetch = async (path, options) => {
      const response = await ask(path, options);
      if (String(path).endsWith(${JSON.stringify(endOfPath)}) && options.method === 'POST')
        await new Promise((wake) => setTimeout(wake, ${delayMs}));
      return response;
    };`,
  );
}

/** Now, and whenever the page is loaded anew. */
async function inPage(page: Page, script: string): Promise<void> {
  await page.addInitScript(`{ ${script} }`);
  await page.evaluate(`{ ${script} }`);
}
