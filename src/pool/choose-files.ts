// Which files of a repository make the wanted model: one GGUF with all its parts, or safetensors with
// everything that belongs to them. Pure.

import { projectorAmong } from '../weights/projector-files.ts';
import type { HubFile } from './hub.ts';
import { PullError } from './model-reference.ts';

/** Small files that belong to safetensors; a tokenizer may be written in several of them. */
const companions = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'tokenizer.model',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'modules.json',
  'preprocessor_config.json',
  'processor_config.json',
]);
/** How an embedding model pools, and what maps its vectors then: the last of those names them. */
const POOLING = /^\d+_(Pooling|Dense)\/config\.json$|^\d+_Dense\/model\.safetensors$/;
const INDEX = 'model.safetensors.index.json';
/** The quantization that is taken of several where none is named, as other programs do. */
export const USUAL_QUANTIZATION = 'Q4_K_M';
const SINGLE = 'model.safetensors';
/** The quantization at the end of a file's name. */
const TAG = /(?:^|[-._])((?:UD-)?(?:I?Q|TQ|MXFP|NVFP|B?F)\d\w*)$/i;

/** A model that a repository holds, and what names it among others. */
export interface PullChoice {
  /** What stands after the colon in its name; absent for the repository's safetensors. */
  readonly file?: string;
  /** As its file says, such as Q4_K_M. */
  readonly quantization?: string;
  /** What opens it, inside the repository; empty for a folder. */
  readonly path: string;
  readonly sizeBytes: number;
}

interface GgufModel {
  readonly files: readonly HubFile[];
  /** Its path without the ending and the number of a part. */
  readonly stem: string;
  /** Parts it is said to have. */
  readonly partCount: number;
}

/** What lies at the top of a folder and is part of its model. */
export function belongsToSafetensors(name: string): boolean {
  return (
    companions.has(name) ||
    name === INDEX ||
    name.startsWith('chat_template') ||
    /\.safetensors(\.part)?$/.test(name)
  );
}

/** Small files come first, so that what is wrong with them shows early. */
export function chooseFiles(files: readonly HubFile[], wanted: string | undefined): readonly HubFile[] {
  for (const { path } of files) refuseUnsafePath(path);
  const ggufs = ggufModels(files);
  const whole = (model: GgufModel) => [...allParts(model), ...projectorOf(files, model)];
  if (wanted !== undefined) return whole(namedGguf(ggufs, wanted));
  const folder = safetensors(files);
  if (folder.length > 0) return folder.toSorted((a, b) => a.sizeBytes - b.sizeBytes);
  const usual = ggufs.filter(({ stem }) => namesGguf(nameOf(stem), USUAL_QUANTIZATION));
  const [only] = usual.length === 1 ? usual : ggufs;
  if (only !== undefined && (ggufs.length === 1 || usual.length === 1)) return whole(only);
  if (only !== undefined) {
    throw new PullError('the repository holds several GGUF models; name one after a colon', choices(ggufs));
  }
  throw new PullError(
    'the repository holds no model in GGUF or safetensors, which are the formats served here',
  );
}

/** Everything that `chooseFiles` would give for one name or another, the smallest first. */
export function choicesIn(files: readonly HubFile[]): PullChoice[] {
  const ggufs = ggufModels(files).filter((model) => model.files.length === model.partCount);
  const folder = safetensors(files);
  const choices = ggufs.map((model): PullChoice => {
    const tag = TAG.exec(nameOf(model.stem))?.[1];
    const isAlone =
      tag !== undefined && ggufs.filter(({ stem }) => namesGguf(nameOf(stem), tag)).length === 1;
    return {
      file: isAlone ? tag : `${model.stem}.gguf`,
      ...(tag === undefined ? {} : { quantization: tag }),
      path: model.files[0]?.path ?? '',
      sizeBytes: sumOf([...projectorOf(files, model), ...model.files]),
    };
  });
  if (folder.length > 0) choices.push({ path: '', sizeBytes: sumOf(folder) });
  return choices.toSorted((a, b) => a.sizeBytes - b.sizeBytes);
}

/** By its path, its file name, or the tag at the end of its name. */
function namedGguf(ggufs: readonly GgufModel[], wanted: string): GgufModel {
  const exact = ggufs.filter(({ files, stem }) =>
    [stem, `${stem}.gguf`, ...files.map(({ path }) => path)].some((path) =>
      [path, nameOf(path)].includes(wanted),
    ),
  );
  const tagged = ggufs.filter(({ stem }) => hasTag(nameOf(stem).toLowerCase(), wanted.toLowerCase()));
  const found = exact.length > 0 ? exact : tagged;
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only !== undefined)
    throw new PullError(`'${wanted}' names several GGUF models; name one of them`, choices(found));
  if (ggufs.length === 0) {
    throw new PullError(
      `the repository holds no GGUF, so '${wanted}' names none; leave it out for its safetensors`,
    );
  }
  throw new PullError(`the repository holds no GGUF '${wanted}'; name one of these`, choices(ggufs));
}

/** Whether a GGUF of this stem is meant: by its name, or the tag at its end. */
export function namesGguf(stem: string, wanted: string): boolean {
  return stem === nameOf(wanted) || hasTag(stem.toLowerCase(), wanted.toLowerCase());
}

/** An underscore also lies within tags, so that one starts there only if it looks like a whole one. */
function hasTag(name: string, tag: string): boolean {
  const separators = /^(ud-)?(i?q|b?f|tq|mxfp)\d/.test(tag) ? ['-', '.', '_'] : ['-', '.'];
  return name === tag || separators.some((separator) => name.endsWith(separator + tag));
}

function ggufModels(files: readonly HubFile[]): GgufModel[] {
  const models = new Map<string, HubFile[]>();
  for (const file of files) {
    if (!file.path.endsWith('.gguf') || /^mmproj/i.test(nameOf(file.path))) continue;
    const whole = file.path.replace(/-\d{5}(-of-\d{5}\.gguf)$/, '$1');
    models.set(whole, [...(models.get(whole) ?? []), file]);
  }
  return [...models].map(([whole, parts]) => ({
    files: parts.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    stem: whole.replace(/(-of-\d{5})?\.gguf$/, ''),
    partCount: Number(/-of-(\d{5})\.gguf$/.exec(whole)?.[1] ?? 1),
  }));
}

/** What it reads images by, where the repository has that. */
function projectorOf(files: readonly HubFile[], { files: own }: GgufModel): readonly HubFile[] {
  const path = own[0]?.path ?? '';
  const found = projectorAmong(
    path,
    files.map((file) => file.path),
  );
  return files.filter((file) => file.path === found);
}

function allParts({ files, stem, partCount }: GgufModel): readonly HubFile[] {
  if (files.length === partCount) return files;
  throw new PullError(`the repository holds ${files.length} of the ${partCount} parts of ${stem}.gguf`);
}

function choices(ggufs: readonly GgufModel[]) {
  return ggufs.map(({ files, stem }) => ({
    path: `${stem}.gguf`,
    sizeBytes: sumOf(files),
  }));
}

export function sumOf(files: readonly HubFile[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/** Nothing where the repository holds no such model. What else lies in its folders belongs to something else. */
function safetensors(files: readonly HubFile[]): HubFile[] {
  const top = files.filter(({ path }) => !path.includes('/'));
  const names = new Set(top.map(({ path }) => path));
  const weights = top.filter(({ path }) => path.endsWith('.safetensors'));
  if (!names.has('config.json') || weights.length === 0) return [];
  const small = [
    ...top.filter(({ path }) => companions.has(path) || path.startsWith('chat_template')),
    ...files.filter(({ path }) => names.has('modules.json') && POOLING.test(path)),
  ];
  // Some repositories hold the weights twice, in one file and in shards.
  if (names.has(SINGLE)) return [...small, ...weights.filter(({ path }) => path === SINGLE)];
  const index = top.filter(({ path }) => path === INDEX);
  const shards = weights.filter(({ path }) => /^model-\d{5}-of-\d{5}\.safetensors$/.test(path));
  return [...small, ...index, ...(index.length > 0 && shards.length > 0 ? shards : weights)];
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** A hostile repository must not reach outside its folder. */
function refuseUnsafePath(path: string): void {
  const parts = path.split('/');
  const isSafe = parts.every((part) => /^[^\\:\p{C}]+$/u.test(part) && part !== '.' && part !== '..');
  if (!isSafe)
    throw new PullError(`the repository holds a file with an unsafe name: ${JSON.stringify(path)}`);
}
