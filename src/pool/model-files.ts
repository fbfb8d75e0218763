// Which files make a model: a GGUF, all parts of a split one, or a folder with config.json and safetensors.
// Knows names and sizes alone; opens nothing.

import { existsSync, readdirSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { projectorFor } from '../weights/projector-files.ts';

/** The ending of a file whose download has not ended. */
export const PART = '.part';

export interface ModelFiles {
  /** What opens the model: a GGUF, the first part of a split one, or a folder. */
  readonly path: string;
  readonly kind: 'gguf' | 'safetensors';
  readonly sizeBytes: number;
  /** Seconds since 1970 when one of its files was last changed. */
  readonly changedSeconds: number;
  /** Whether a file is there in part alone. */
  readonly unfinished: boolean;
}

/** How pictures are prepared; looked for beside a projector. */
const PREPARING = ['processor_config.json', 'preprocessor_config.json'];
const PARTS = /\.(json|jinja|txt|model|tiktoken|safetensors)$/;
/** `owner/repo/folder/file`: nothing is looked for deeper than that, nor through a link in a circle. */
const DEEPEST = 4;

/** Always in the same order. Hidden files are left out; links are followed. */
export function modelFilesUnder(folder: string, depth = 1): ModelFiles[] {
  const names = visibleNames(folder);
  // A folder that nobody may read may hold a model: opening it says why it cannot be used.
  if (names === undefined) return depth === 1 ? [] : [measure(folder, 'safetensors', [])];
  const folders = names.map((name) => join(folder, name)).filter((path) => statOf(path)?.isDirectory());
  const files = names.filter((name) => !folders.includes(join(folder, name)));
  // Steps of an embedding model are parts of it.
  const others = folders.filter((path) => !files.includes('modules.json') || !isModule(basename(path)));
  const deeper = depth < DEEPEST ? others.flatMap((path) => modelFilesUnder(path, depth + 1)) : [];
  return [...safetensorsIn(folder, files), ...ggufsIn(folder, files), ...deeper];
}

export function folderOf(path: string): string {
  return statSync(path).isDirectory() ? path : dirname(path);
}

/** Every file of a model by its name in the folder, in a fixed order. */
export function modelParts(path: string): string[] {
  const folder = folderOf(path);
  if (path.endsWith('.gguf')) return filesOfGguf(path).map((file) => relative(folder, file));
  const names = readdirSync(folder, { withFileTypes: true });
  const own = names.filter((one) => !one.isDirectory() && PARTS.test(one.name)).map(({ name }) => name);
  const ggufs = names.filter(({ name }) => name.endsWith('.gguf')).map(({ name }) => name);
  const modules = names
    .filter((one) => one.isDirectory() && isModule(one.name))
    .flatMap(({ name }) => readdirSync(join(folder, name)).map((file) => join(name, file)));
  const isSafetensors = own.some((name) => name.endsWith('.safetensors'));
  return [...own, ...modules, ...(isSafetensors ? [] : ggufs)].sort();
}

/** What a GGUF reads images with: its projector, and how pictures are prepared for it. None for a folder, which has all within. */
export function towerFiles(path: string, projectorPath?: string): string[] {
  const projector = projectorPath ?? (path.endsWith('.gguf') ? projectorFor(path) : undefined);
  if (projector === undefined) return [];
  const settings = PREPARING.map((name) => join(dirname(projector), name)).filter((file) => existsSync(file));
  return [projector, ...settings];
}

/** A folder that modules.json names, such as `1_Pooling`. */
export function isModule(name: string): boolean {
  return /^\d+_[A-Z]\w*$/.test(name);
}

/** The model that one path stands for; all its sizes are 0 where nothing is there. */
export function modelFilesAt(path: string): ModelFiles {
  if (statOf(path)?.isDirectory()) {
    const names = visibleNames(path) ?? [];
    return (
      safetensorsIn(path, names)[0] ?? {
        ...(ggufsIn(path, names)[0] ?? measure(path, 'safetensors', [])),
        path,
      }
    );
  }
  if (path.endsWith('.safetensors')) return measure(path, 'safetensors', [path]);
  return measure(path, 'gguf', filesOfGguf(path));
}

/** The file, or all parts of a split one, and what is left of unfinished downloads. */
export function filesOfGguf(path: string): string[] {
  const names = visibleNames(dirname(path)) ?? [];
  return names
    .filter((name) => wholeOf(name) === wholeOf(basename(path)))
    .map((name) => join(dirname(path), name));
}

/** Of a split GGUF the first part, where it is there; any other path as it is. */
export function openingPath(path: string): string {
  const first = path.replace(/-\d{5}(-of-\d{5}\.gguf)$/, '-00001$1');
  return statOf(first) === undefined ? path : first;
}

/** A file's name without its ending and without the number of its part. */
export function modelStem(name: string): string {
  return basename(name, PART)
    .replace(/\.(gguf|safetensors)$/, '')
    .replace(/-\d{5}-of-\d{5}$/, '');
}

function safetensorsIn(folder: string, names: readonly string[]): ModelFiles[] {
  const weights = names.filter((name) => /\.safetensors(\.part)?$/.test(name));
  if (!names.includes('config.json') || weights.length === 0) return [];
  const paths = weights.map((name) => join(folder, name));
  return [measure(folder, 'safetensors', paths)];
}

function ggufsIn(folder: string, names: readonly string[]): ModelFiles[] {
  const filesOf = new Map<string, string[]>();
  for (const name of names) {
    // Projectors of images accompany a model and are none themselves.
    if (!/\.gguf(\.part)?$/.test(name) || /^mmproj/i.test(name)) continue;
    const whole = wholeOf(name);
    filesOf.set(whole, [...(filesOf.get(whole) ?? []), join(folder, name)]);
  }
  return [...filesOf.values()].map((paths) =>
    measure(paths.find((path) => !path.endsWith(PART)) ?? (paths[0] as string), 'gguf', paths),
  );
}

/** The same for all parts of a split GGUF, and for a file and its unfinished download. */
function wholeOf(name: string): string {
  return basename(name, PART).replace(/-\d{5}(-of-\d{5}\.gguf)$/, '$1');
}

function measure(path: string, kind: ModelFiles['kind'], files: readonly string[]): ModelFiles {
  const isLeftover = (file: string) => file.endsWith(PART) && files.includes(file.slice(0, -PART.length));
  const used = files.filter((file) => !isLeftover(file));
  const stats = used.map(statOf).filter((one) => one !== undefined);
  const changedMs = Math.max(
    0,
    ...(stats.length > 0 ? stats : [statOf(path)]).map((one) => one?.mtimeMs ?? 0),
  );
  return {
    path,
    kind,
    sizeBytes: stats.reduce((sum, { size }) => sum + size, 0),
    changedSeconds: Math.floor(changedMs / 1000),
    unfinished: used.some((file) => file.endsWith(PART)),
  };
}

function visibleNames(folder: string): string[] | undefined {
  try {
    return readdirSync(folder)
      .filter((name) => !name.startsWith('.'))
      .sort();
  } catch {
    return undefined;
  }
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
