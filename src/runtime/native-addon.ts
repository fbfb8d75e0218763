// Finds and loads the C++ addon. What it can do is declared where it is used.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { messageOf } from './error-message.ts';
import { runsOnMusl } from './limits.ts';

type AddonOrigin = 'built' | 'prebuilt';

export interface AddonFile {
  readonly origin: AddonOrigin;
  readonly path: string;
}

export type NativeAddonLoad<Addon> =
  | { readonly available: true; readonly addon: Addon; readonly origin: AddonOrigin }
  | { readonly available: false; readonly reason: string };

const pathOf = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));

const addonFiles: readonly AddonFile[] = [
  { origin: 'built', path: pathOf('build/chairlift.node') },
  // It is made for glibc. On a system with another C library it might load, and then do anything.
  ...(runsOnMusl()
    ? []
    : [{ origin: 'prebuilt' as const, path: pathOf(`prebuilt/${process.platform}-${process.arch}.node`) }]),
];

const REMEDY =
  'install a C++ compiler and run npm run setup, or npm rebuild chairlift where it is a dependency';

export function loadNativeAddon<Addon>(path?: string): NativeAddonLoad<Addon> {
  const require = createRequire(import.meta.url);
  const files = path === undefined ? addonFiles : [{ origin: 'built' as const, path }];
  return firstThatLoads(
    files.filter((file) => existsSync(file.path)),
    (file) => require(file) as Addon,
  );
}

/** Skips files that do not load: they may be made for another system. */
export function firstThatLoads<Addon>(
  files: readonly AddonFile[],
  load: (path: string) => Addon,
): NativeAddonLoad<Addon> {
  const problems: string[] = [];
  for (const { origin, path } of files) {
    try {
      return { available: true, addon: load(path), origin };
    } catch (error) {
      problems.push(`the ${origin} C++ addon does not load (${messageOf(error)})`);
    }
  }
  const problem = problems.length === 0 ? 'the C++ addon is not built' : problems.join(', ');
  return { available: false, reason: `${problem}; ${REMEDY}` };
}
