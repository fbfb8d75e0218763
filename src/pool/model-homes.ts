// Where models lie: in Chairlift's own folder, with the package, in the cache of Hugging Face's tools and in LM Studio's folder,
// found as those programs find them. Nothing is ever written to the last two.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ShortNames, wellKnownNames } from './short-names.ts';

interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

export interface ModelHomes {
  /** Chairlift's own models folder, with `owner/repo/…` in it. */
  readonly own: string;
  /** Holds `models--owner--repo` folders. */
  readonly hubCache: string;
  /** Each holds `publisher/name/…`. */
  readonly lmStudio: readonly string[];
  readonly shortNames: ShortNames;
}

export function modelHomes(
  own: string,
  surroundings: Surroundings,
  shortNames: ShortNames = wellKnownNames,
): ModelHomes {
  return {
    own,
    hubCache: hubCacheFolder(surroundings),
    lmStudio: lmStudioFolders(surroundings),
    shortNames,
  };
}

/** As huggingface_hub looks for it: HF_HUB_CACHE, the older HUGGINGFACE_HUB_CACHE, then `hub` of HF_HOME. */
function hubCacheFolder({ environment, home }: Surroundings): string {
  const given = (name: string) => {
    const value = environment[name];
    return value === undefined || value === '' ? undefined : value.replace(/^~(?=[/\\]|$)/, home);
  };
  const cache = given('HF_HUB_CACHE') ?? given('HUGGINGFACE_HUB_CACHE');
  if (cache !== undefined) return cache;
  const base = given('HF_HOME') ?? join(given('XDG_CACHE_HOME') ?? join(home, '.cache'), 'huggingface');
  return join(base, 'hub');
}

/** A pointer file names LM Studio's folder where it was moved; its settings name another place for downloads. */
function lmStudioFolders({ home }: Surroundings): string[] {
  const pointed = textOf(join(home, '.lmstudio-home-pointer'))?.trim();
  const bases = [pointed, join(home, '.lmstudio'), join(home, '.cache', 'lm-studio')].filter(
    (base): base is string => base !== undefined && base !== '',
  );
  const folders = bases.flatMap((base) => [...downloadsFolder(base), join(base, 'models')]);
  return [...new Set(folders)].filter((folder) => existsSync(folder));
}

function downloadsFolder(base: string): string[] {
  try {
    const { downloadsFolder: folder } = JSON.parse(textOf(join(base, 'settings.json')) ?? '{}');
    return typeof folder === 'string' && folder !== '' ? [folder] : [];
  } catch {
    // Settings of another program that cannot be read say nothing.
    return [];
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Pulled models lie in it as `owner/repo/…`; files and folders may be put in by hand. */
export function defaultModelFolder(home: string): string {
  return join(home, '.chairlift', 'models');
}

/** The same from the sources and from the compiled files. */
export function embeddedModelPath(): string {
  return fileURLToPath(new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url));
}
