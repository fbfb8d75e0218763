// A real browser for the tests of the page: one that is installed, or the package that brings one; otherwise they are
// skipped, and say why.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
/** Found at run time alone: it is optional. */
const PACKAGE: string = '@sparticuz/chromium';

interface Found {
  readonly path: string;
  readonly flags: readonly string[];
}

interface ChromiumPackage {
  readonly default: { readonly args: readonly string[]; executablePath(): Promise<string> };
}

async function find(): Promise<Found | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = NAMES.map((name) => join(folder, name)).find(isProgram);
    if (path !== undefined) return { path, flags: ['--no-sandbox'] };
  }
  try {
    const { default: brought } = (await import(PACKAGE)) as ChromiumPackage;
    return { path: await brought.executablePath(), flags: brought.args };
  } catch {
    return undefined;
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const found = await find();

/** Why there is none; undefined where there is one. */
export const missingBrowser =
  found === undefined ? `no browser: neither ${NAMES.join(', ')} on the PATH nor ${PACKAGE}` : undefined;

export function startBrowser(): Promise<Browser> {
  if (found === undefined) throw new Error(missingBrowser);
  return chromium.launch({ executablePath: found.path, args: [...found.flags] });
}
