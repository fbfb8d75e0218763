// What models are called. A model has a short name, after its file or folder, and a long one that says where
// it lies. It goes by the short one unless another model has it, too: then both go by their long ones, so that
// a new file never takes the name of another. A number at the end distinguishes what is still the same.

import { existsSync } from 'node:fs';
import { basename, dirname, relative, sep } from 'node:path';
import { ModelFileError } from '../weights/model-file-error.ts';
import { type ModelFiles, modelStem } from './model-files.ts';

export interface WantedName {
  /** Said by the user: it is kept as it is. */
  readonly given?: string;
  readonly short: string;
  readonly long: string;
}

export interface ModelPath {
  readonly name?: string;
  readonly path: string;
  /** Why it cannot be used, where that is known before its files are opened. */
  readonly problem?: string;
}

/** Reads `name=path` or a path alone. A file that has such a name with `=` is a path. */
export function parseModelPath(text: string): ModelPath {
  const at = text.indexOf('=');
  if (at < 0 || existsSync(text)) return { path: text };
  const name = text.slice(0, at);
  const path = text.slice(at + 1);
  if (/^[\w.:/@+-]+$/.test(name) && path !== '') return { name, path };
  throw new ModelFileError({
    file: text,
    field: 'name',
    problem: 'is neither a file nor name=path',
    remedy: 'A name has letters, digits and . _ - : / @ + alone.',
  });
}

/** Names of a path that the user gave: after the file or the folder; the long one with the folder around it. */
export function wantedNameOfPath(path: string, given: string | undefined): WantedName {
  const file = basename(path);
  // Such a name says nothing of the model.
  const isPlain = /^model(-\d{5}-of-\d{5})?\.(safetensors|gguf)$/.test(file);
  const named = isPlain ? dirname(path) : path;
  const short = modelStem(basename(named));
  const long = `${basename(dirname(named))}/${short}`;
  return given === undefined ? { short, long } : { given, short, long };
}

/**
 * Names of what lies in the models folder. A file at its top is called by its stem. What lies in `repo` or
 * `owner/repo` is called `repo`, or `repo:stem` where the folder holds several models.
 */
export function wantedNamesOfFolder(folder: string, models: readonly ModelFiles[]): WantedName[] {
  const homes = models.map(({ path, kind }) => homeOf(folder, path, kind));
  return models.map(({ path, kind }, at) => {
    const home = homes[at] as string;
    const stem = modelStem(basename(path));
    if (home === '') return { short: stem, long: stem };
    const isAlone = homes.filter((other) => other === home).length === 1;
    const ending = isAlone || kind === 'safetensors' ? '' : `:${stem}`;
    return { short: `${basename(home)}${ending}`, long: `${home}${ending}` };
  });
}

/** The folder a model is called after, relative to the models folder: `owner/repo`, `repo`, or nothing. */
function homeOf(folder: string, path: string, kind: ModelFiles['kind']): string {
  const parts = relative(folder, kind === 'gguf' ? dirname(path) : path).split(sep);
  return parts.slice(0, kind === 'gguf' ? 2 : parts.length).join('/');
}

/** One name for each that is wanted. What users gave is theirs; then the groups choose, one after the other. */
export function chooseNames(groups: readonly (readonly WantedName[])[]): string[][] {
  const taken = new Set(groups.flat().flatMap(({ given }) => given ?? []));
  return groups.map((wanted) => {
    const free = wanted.map(({ given, short }) => {
      const rivals = wanted.filter((other) => other.given === undefined && other.short === short);
      return given === undefined && rivals.length === 1 && !taken.has(short);
    });
    wanted.forEach(({ short }, at) => {
      if (free[at]) taken.add(short);
    });
    return wanted.map(({ given, short, long }, at) => {
      if (given !== undefined) return given;
      return free[at] ? short : takeNumbered(long, taken);
    });
  });
}

function takeNumbered(name: string, taken: Set<string>): string {
  let chosen = name;
  for (let number = 2; taken.has(chosen); number++) chosen = `${name}-${number}`;
  taken.add(chosen);
  return chosen;
}
