// Models by the name they have on the hub, `owner/repo` or `owner/repo:file`, wherever on this machine they lie: in the
// models folder, in the cache of Hugging Face's tools, in LM Studio's folder. One whose files are not all there is found too,
// and says so; it is never loaded.

import { existsSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { ModelFileError, type ModelFileFault } from '../weights/model-file-error.ts';
import { namesGguf, USUAL_QUANTIZATION } from './choose-files.ts';
import { cachedRepositories } from './hub-cache.ts';
import { missingFiles } from './missing-files.ts';
import { type ModelFiles, modelFilesUnder, modelStem } from './model-files.ts';
import type { ModelHomes } from './model-homes.ts';
import { type ModelPath, parseModelPath } from './model-names.ts';
import { type ModelReference, referenceIn, referenceName } from './model-reference.ts';

export type ModelSource = 'own' | 'hugging-face' | 'lm-studio';

interface NamedModel {
  /** `owner/repo`, and `:stem` after it where there are several GGUFs. */
  readonly name: string;
  readonly path: string;
  readonly source: ModelSource;
  /** What is missing of it. */
  readonly incomplete?: string;
}

/** What other programs have here, each name once: of the same name in several places, one that is complete. */
export function otherModels(homes: ModelHomes): NamedModel[] {
  const all = [...inHubCache(homes.hubCache), ...homes.lmStudio.flatMap(inLmStudio)].flatMap(modelsOf);
  const byName = new Map<string, NamedModel>();
  for (const model of all) {
    const known = byName.get(model.name);
    if (known === undefined || (isIncomplete(known) && !isIncomplete(model))) byName.set(model.name, model);
  }
  return [...byName.values()];
}

/** What `--model` was given, `name=…` or without a name; see `locateModel`. */
export function givenModel(text: string, homes: ModelHomes): ModelPath {
  const { name, path } = parseModelPath(text);
  return { ...locateModel(path, homes), ...(name === undefined ? {} : { name }) };
}

export interface LocatedModel extends ModelPath {
  /** Set where it is the name of a model that is not here, nor a part of it: it may be pulled. */
  readonly absent?: ModelReference;
}

/**
 * A path stays what it is. The name of a model on this machine becomes its path and its name; the name of none stays,
 * with the problem that it is. A short name stays the model's name.
 */
export function locateModel(text: string, homes: ModelHomes): LocatedModel {
  const reference = existsSync(text) ? undefined : referenceIn(text, homes.shortNames);
  if (reference === undefined) return { path: text };
  const { absent, ...found } = find(reference, homes);
  const name = text.includes('/') ? referenceName(reference) : text;
  if ('path' in found) return { name, path: found.path };
  const problem = new ModelFileError({ file: text, ...found }).message;
  return { name, path: text, problem, ...(absent && { absent: reference }) };
}

/** Whether the model at this path came from that repository, and is the file that the reference names. */
export function isFrom({ owner, repo, file }: ModelReference, path: string): boolean {
  const folders = path.split(/[\\/]/).map((part) => part.toLowerCase());
  const [first, second] = [owner.toLowerCase(), repo.toLowerCase()];
  const isThere =
    folders.includes(`models--${first}--${second}`) ||
    folders.some((folder, at) => folder === first && folders[at + 1] === second);
  return isThere && (file === undefined || isNamed(path, file));
}

interface Repository {
  readonly id: string;
  readonly source: ModelSource;
  readonly models: readonly ModelFiles[];
  /** Where the models' own folder names begin. */
  readonly folder: string;
  /** A file of it that is still to come. */
  readonly unfinished: string | undefined;
}

type Fault = Omit<ModelFileFault, 'file'>;
type Found = { readonly path: string } | Fault;
/** The files it names are nowhere. */
type Absent = { readonly absent?: true };

function find(reference: ModelReference, homes: ModelHomes): Found & Absent {
  const id = `${reference.owner}/${reference.repo}`.toLowerCase();
  const places = [
    ...inFolder(homes.own, 'own'),
    ...inHubCache(homes.hubCache),
    ...homes.lmStudio.flatMap(inLmStudio),
  ].filter((repository) => repository.id.toLowerCase() === id);
  const results = places.map((repository) => chooseIn(repository, reference.file));
  return results.find((one) => 'path' in one) ?? results[0] ?? nowhere(reference, homes);
}

function nowhere(reference: ModelReference, { own, hubCache, lmStudio }: ModelHomes): Fault & Absent {
  return {
    absent: true,
    problem: `there is no such file or folder, and no model of this name in ${[own, hubCache, ...lmStudio].join(', ')}`,
    remedy: `Give a path, or bring it with chairlift pull hf:${referenceName(reference)}.`,
  };
}

function isNamed(path: string, file: string): boolean {
  return namesGguf(modelStem(basename(path)), file.replace(/\.gguf$/, ''));
}

/** The folder of safetensors, or the one GGUF, or the GGUF that is named; of several, the usual quantization. */
function chooseIn(repository: Repository, file: string | undefined): Found & Absent {
  const { models, id } = repository;
  const ggufs = models.filter(({ kind }) => kind === 'gguf');
  const wanted =
    file === undefined
      ? (models.find(({ kind }) => kind === 'safetensors') ??
        (ggufs.length === 1 ? ggufs[0] : ggufs.find(({ path }) => isNamed(path, USUAL_QUANTIZATION))))
      : ggufs.find(({ path }) => isNamed(path, file));
  if (wanted !== undefined) return incompleteness(wanted, repository) ?? { path: wanted.path };
  if (ggufs.length > 0) {
    const stems = ggufs.map(({ path }) => modelStem(basename(path))).join(', ');
    return {
      ...(file !== undefined && { absent: true }),
      problem: `${repository.folder} holds ${file === undefined ? 'several GGUF files' : `no GGUF '${file}'`}`,
      remedy: `Name one of ${stems} after a colon.`,
    };
  }
  const problem = `${repository.folder} holds no weights`;
  const remedy = `Bring them with chairlift pull hf:${id}.`;
  return toCome(repository) ?? { absent: true, problem, remedy };
}

function modelsOf(repository: Repository): NamedModel[] {
  const { id, models, source, folder } = repository;
  const named = (name: string, path: string, fault: Fault | undefined): NamedModel => ({
    name,
    path,
    source,
    ...(fault === undefined ? {} : { incomplete: new ModelFileError({ file: path, ...fault }).message }),
  });
  if (models.length === 0) {
    const fault = toCome(repository);
    return fault === undefined ? [] : [named(id, folder, fault)];
  }
  return models.map((files) => {
    const isAlone = models.length === 1 || files.kind === 'safetensors';
    const name = isAlone ? id : `${id}:${modelStem(basename(files.path))}`;
    return named(name, files.path, incompleteness(files, repository));
  });
}

function isIncomplete({ incomplete }: NamedModel): boolean {
  return incomplete !== undefined;
}

function incompleteness(files: ModelFiles, repository: Repository): Fault | undefined {
  const remedy = remedies[repository.source];
  if (files.unfinished) return { field: 'incomplete', problem: 'its download has not ended', remedy };
  const missing = missingFiles(files);
  if (missing.length === 0) return toCome(repository);
  const problem = `${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing`;
  return { field: 'incomplete', problem, remedy };
}

function toCome({ unfinished, source }: Repository): Fault | undefined {
  if (unfinished === undefined) return undefined;
  return { field: 'incomplete', problem: `${unfinished} is still to come`, remedy: remedies[source] };
}

const remedies: Readonly<Record<ModelSource, string>> = {
  own: 'Pull it again to go on.',
  'hugging-face': 'Let the program that downloads it end, or remove what it left.',
  'lm-studio': 'Let LM Studio end the download, or remove what it left.',
};

function inHubCache(cache: string): Repository[] {
  return cachedRepositories(cache).map(({ id, folder, models, unfinishedBlob }) => ({
    id,
    source: 'hugging-face',
    folder: folder ?? join(cache, `models--${id.replace('/', '--')}`),
    models,
    unfinished: unfinishedBlob,
  }));
}

function inLmStudio(folder: string): Repository[] {
  return inFolder(folder, 'lm-studio');
}

/** Repositories of a folder that has them as `owner/repo`. */
function inFolder(folder: string, source: ModelSource): Repository[] {
  const byId = new Map<string, ModelFiles[]>();
  for (const files of modelFilesUnder(folder)) {
    const [owner, repo, file] = relative(folder, files.path).split(sep);
    if (owner === undefined || repo === undefined) continue;
    if (file === undefined && files.kind === 'gguf') continue;
    byId.set(`${owner}/${repo}`, [...(byId.get(`${owner}/${repo}`) ?? []), files]);
  }
  return [...byId].map(([id, models]) => ({
    id,
    source,
    models,
    folder: join(folder, ...id.split('/')),
    unfinished: undefined,
  }));
}
