// A real browser for the tests of the page, by CHAIRLIFT_BROWSER: Chromium, which is the default, or Firefox, by WebDriver
// BiDi; where there is none the tests are skipped, and say why.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium, firefox } from 'playwright-core';

interface BrowserKind {
  /** Programs on the PATH, the best first. */
  readonly programs: readonly string[];
  /** A package that brings one; found at run time alone, as it is optional. */
  readonly package?: string;
  launch(found: Found, start: BrowserStart): Promise<Browser>;
}

interface Found {
  readonly path: string;
  readonly flags?: readonly string[];
}

interface ChromiumPackage {
  readonly default: { readonly args: readonly string[]; executablePath(): Promise<string> };
}

export type ColorScheme = 'light' | 'dark';

interface BrowserStart {
  /** What the whole of Firefox prefers; a context of Chromium says it for itself. */
  readonly scheme?: ColorScheme;
  /** Where it saves files. */
  readonly downloads?: string;
}

const kinds: Readonly<Record<string, BrowserKind>> = {
  chromium: {
    programs: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    package: '@sparticuz/chromium',
    launch: ({ path, flags = ['--no-sandbox'] }, { downloads }) =>
      chromium.launch({
        executablePath: path,
        args: [...flags],
        ...(downloads && { downloadsPath: downloads }),
      }),
  },
  firefox: {
    programs: ['firefox-esr', 'firefox'],
    launch: ({ path }, { scheme, downloads }) =>
      firefox.launch({
        executablePath: path,
        // Firefox as it is published; without a channel Playwright expects a build of its own.
        channel: 'moz-firefox',
        firefoxUserPrefs: {
          // BiDi has no command for it in Debian's Firefox.
          'layout.css.prefers-color-scheme.content-override': scheme === 'dark' ? 0 : 1,
          // Lets a page read the clipboard unasked.
          'dom.events.testing.asyncClipboard': true,
        },
        ...(downloads && { downloadsPath: downloads }),
      }),
  },
};

/** Which browser these tests drive. */
export const browserName = process.env.CHAIRLIFT_BROWSER ?? 'chromium';

function kindNamed(name: string): BrowserKind {
  const kind = kinds[name];
  if (kind === undefined) throw new Error(`CHAIRLIFT_BROWSER is one of ${Object.keys(kinds).join(', ')}`);
  return kind;
}

async function find({ programs, package: brings }: BrowserKind): Promise<Found | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = programs.map((name) => join(folder, name)).find(isProgram);
    if (path !== undefined) return { path };
  }
  if (brings === undefined) return undefined;
  try {
    const { default: brought } = (await import(brings)) as ChromiumPackage;
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

const kind = kindNamed(browserName);
const found = await find(kind);

/** Why there is none; undefined where there is one. */
export const missingBrowser =
  found === undefined
    ? `no browser: none of ${kind.programs.join(', ')} on the PATH${kind.package ? `, nor ${kind.package}` : ''}`
    : undefined;

export function startBrowser(start: BrowserStart = {}): Promise<Browser> {
  if (found === undefined) throw new Error(missingBrowser);
  return kind.launch(found, start);
}
