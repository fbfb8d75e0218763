// The name of a model on the hub, as users write it: hf:owner/repo or hf:owner/repo:file.

import { existsSync } from 'node:fs';
import { PullError } from './pull-error.ts';

export interface ModelReference {
  readonly owner: string;
  readonly repo: string;
  /** A file of the repository, or the tag of its quantization such as Q4_K_M. */
  readonly file?: string;
}

const PREFIX = 'hf:';
const pattern = /^(?<owner>[A-Za-z0-9][\w.-]*)\/(?<repo>[A-Za-z0-9_][\w.-]*)(?::(?<file>[^:]+))?$/;

/** Without `hf:` a text that is also a path on this machine could mean both, and is refused. */
export function parseReference(text: string): ModelReference {
  const reference = referenceIn(text);
  if (reference === undefined) {
    throw new PullError(
      `'${text}' names no model; write hf:owner/repo, or hf:owner/repo:file for one of its files`,
    );
  }
  if (!text.startsWith(PREFIX) && existsSync(text)) {
    throw new PullError(
      `'${text}' is also a path on this machine; write hf:${text} for the model on the hub`,
    );
  }
  return reference;
}

/** With or without `hf:`; undefined where the text cannot be such a name. */
export function referenceIn(text: string): ModelReference | undefined {
  const written = text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text;
  const { owner, repo, file } = pattern.exec(written)?.groups ?? {};
  if (owner === undefined || repo === undefined) return undefined;
  return file === undefined ? { owner, repo } : { owner, repo, file };
}
