// The one parser of model names, for commands, settings and every protocol: hf:owner/repo[:file], hf.co/owner/repo[:file], the
// address of a page of the hub, owner/repo[:file], or a short name from a table. And why a model cannot be pulled.

import { existsSync } from 'node:fs';
import { type ShortNames, wellKnownNames } from './short-names.ts';

interface FileChoice {
  readonly path: string;
  readonly sizeBytes: number;
}

/** A download that cannot be done or go on: the message says why and what to do. */
export class PullError extends Error {
  override readonly name = 'PullError';
  /** Files to choose from, where the user has to. */
  readonly choices: readonly FileChoice[];

  constructor(message: string, choices: readonly FileChoice[] = []) {
    super(message);
    this.choices = choices;
  }
}

export interface ModelReference {
  readonly owner: string;
  readonly repo: string;
  /** A file of the repository, or the tag of its quantization such as Q4_K_M. */
  readonly file?: string;
}

const PREFIX = /^(?:hf:(?:\/\/)?|(?:https?:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\/)/i;
/** Ollama's tag of whatever has none. */
const LATEST = /:latest$/;
const pattern = /^(?<owner>[A-Za-z0-9][\w.-]*)\/(?<repo>[A-Za-z0-9_][\w.-]*)(?::(?<file>[^:]+))?$/;
const pagePattern =
  /^(?<repository>[^/:]+\/[^/:]+)\/(?:tree\/main\/?|(?:blob|resolve)\/main\/(?<file>[^:?]+))(?:\?.*)?$/;

/** A text that is also a path on this machine could mean both, unless it says that it means the hub. */
export function parseReference(text: string, shortNames: ShortNames = wellKnownNames): ModelReference {
  const reference = referenceIn(text, shortNames);
  if (reference === undefined) {
    throw new PullError(
      `'${text}' names no model; write hf:owner/repo, or hf:owner/repo:file for one of its files`,
    );
  }
  if (!PREFIX.test(text) && existsSync(text)) {
    throw new PullError(
      `'${text}' is also a path on this machine; write hf:${text} for the model on the hub`,
    );
  }
  return reference;
}

/** Undefined where the text cannot be such a name. Whether it is also a path is for the caller to ask. */
export function referenceIn(
  text: string,
  shortNames: ShortNames = wellKnownNames,
): ModelReference | undefined {
  const tagless = text.replace(LATEST, '');
  const long = shortNames.get(tagless.toLowerCase());
  const written = (long ?? tagless).replace(PREFIX, '');
  const { repository, file: page } = pagePattern.exec(written)?.groups ?? {};
  const named = repository === undefined ? written : `${repository}${page === undefined ? '' : `:${page}`}`;
  const { owner, repo, file } = pattern.exec(named.replace(/\/$/, ''))?.groups ?? {};
  if (owner === undefined || repo === undefined) return undefined;
  return file === undefined ? { owner, repo } : { owner, repo, file };
}

/** The shortest name that `referenceIn` reads as this reference. */
export function referenceName({ owner, repo, file }: ModelReference): string {
  return file === undefined ? `${owner}/${repo}` : `${owner}/${repo}:${file}`;
}
