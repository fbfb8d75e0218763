// The name of a model on the hub, as users write it: hf:owner/repo or hf:owner/repo:file. And why a model cannot be pulled.

import { existsSync } from 'node:fs';

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
