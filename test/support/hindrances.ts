// What axe finds serious in a page.

import { source } from 'axe-core';
import type { Page } from 'playwright-core';

type Violations = readonly {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}[];

export async function hindrances(page: Page): Promise<string[]> {
  await page.evaluate(source);
  const found = await page.evaluate<Violations>('axe.run().then(({ violations }) => violations)');
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
