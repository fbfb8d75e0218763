// A model without its weights: what a gateway needs to read and write its text. Files keep their names and sizes, with holes
// where the weights are, so that everything that opens models opens these, too.

import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { folderOf, modelParts, openingPath } from '../pool/model-files.ts';
import { descriptionSpans, type Span } from '../weights/description-spans.ts';

interface TextFile {
  readonly name: string;
  readonly size: number;
  readonly spans: readonly Span[];
}

export interface TextSide {
  /** Relative to the folder; empty for the folder itself. */
  readonly opening: string;
  readonly files: readonly TextFile[];
}

/** The most that one message carries. */
export const PART_BYTES = 512 * 1024;

export function describeTextSide(path: string): TextSide {
  const folder = folderOf(path);
  const files = modelParts(path).map((name) => ({
    name,
    size: statSync(join(folder, name)).size,
    spans: descriptionSpans(join(folder, name)),
  }));
  return { opening: folder === path ? '' : basename(openingPath(path)), files };
}

/** Undefined for a file that is not one of the model's. */
export function readPart(path: string, name: string, offset: number, bytes: number): Uint8Array | undefined {
  if (!modelParts(path).includes(name) || bytes > PART_BYTES) return undefined;
  const content = Buffer.alloc(bytes);
  const file = openSync(join(folderOf(path), name), 'r');
  try {
    return content.subarray(0, readSync(file, content, 0, bytes, offset));
  } finally {
    closeSync(file);
  }
}

/** Returns the path that opens it. */
export async function fetchTextSide(
  folder: string,
  { opening, files }: TextSide,
  fetch: (file: string, offset: number, bytes: number) => Promise<Uint8Array>,
): Promise<string> {
  // Names come from another machine.
  for (const name of [opening, ...files.map((file) => file.name)]) {
    const isInside = name === '' || (normalize(name) === name && !/^(\.\.|\/)/.test(name));
    if (!isInside) throw new Error(`${name} is no name of a model's file`);
  }
  for (const { name, size, spans } of files) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    const file = openSync(path, 'w', 0o600);
    try {
      ftruncateSync(file, size);
      for (const [start, end] of spans) {
        for (let at = start; at < end; at += PART_BYTES) {
          const content = await fetch(name, at, Math.min(PART_BYTES, end - at));
          if (content.length === 0) throw new Error(`${name} ends at byte ${at}`);
          writeSync(file, content, 0, content.length, at);
        }
      }
    } finally {
      closeSync(file);
    }
  }
  return opening === '' ? folder : join(folder, opening);
}
