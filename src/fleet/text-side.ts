// A model without its weights: what a gateway needs to read and write its text. Files keep their names and sizes, with holes
// where the weights are, so that everything that opens models opens these, too.

import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { folderOf, modelParts, openingPath, towerFiles } from '../pool/model-files.ts';
import { descriptionSpans, type Span } from '../weights/description-spans.ts';

interface TextFile {
  readonly name: string;
  readonly size: number;
  readonly spans: readonly Span[];
}

export interface TextSide {
  /** Relative to the folder; empty for the folder itself. */
  readonly opening: string;
  /** The file of its tower, where that is not the model's own. */
  readonly projector?: string | undefined;
  readonly files: readonly TextFile[];
}

/** The folder of a tower's files in a copy. */
const TOWER = 'tower';
/** The most that one message carries. */
export const PART_BYTES = 512 * 1024;

export interface DescribedModel {
  readonly path: string;
  /** Whether what it reads images with is described, too. */
  readonly sees?: boolean | undefined;
  /** Default: the one beside a GGUF. */
  readonly projectorPath?: string | undefined;
}

/** Its files, and those of its tower in a folder of their own: they may lie anywhere. */
function filesOf({ path, sees, projectorPath }: DescribedModel): Map<string, string> {
  const own = modelParts(path).map((name) => [name, join(folderOf(path), name)] as const);
  const tower = sees ? towerFiles(path, projectorPath) : [];
  return new Map([...own, ...tower.map((file) => [`${TOWER}/${basename(file)}`, file] as const)]);
}

export function describeTextSide(model: DescribedModel): TextSide {
  const { path } = model;
  const all = [...filesOf(model)];
  const files = all.map(([name, file]) => ({
    name,
    size: statSync(file).size,
    spans: descriptionSpans(file),
  }));
  const projector = all.find(([name]) => name.startsWith(`${TOWER}/`))?.[0];
  const opening = folderOf(path) === path ? '' : basename(openingPath(path));
  return { opening, ...(projector === undefined ? {} : { projector }), files };
}

/** Undefined for a file that is not one of the model's. */
export function readPart(
  model: DescribedModel,
  name: string,
  offset: number,
  bytes: number,
): Uint8Array | undefined {
  const path = filesOf(model).get(name);
  if (path === undefined || bytes > PART_BYTES) return undefined;
  const content = Buffer.alloc(bytes);
  const file = openSync(path, 'r');
  try {
    return content.subarray(0, readSync(file, content, 0, bytes, offset));
  } finally {
    closeSync(file);
  }
}

/** What opens a copy. */
export interface TextPaths {
  readonly path: string;
  readonly projectorPath?: string | undefined;
}

export async function fetchTextSide(
  folder: string,
  { opening, projector = '', files }: TextSide,
  fetch: (file: string, offset: number, bytes: number) => Promise<Uint8Array>,
): Promise<TextPaths> {
  // Names come from another machine.
  for (const name of [opening, projector, ...files.map((file) => file.name)]) {
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
  return textPaths(folder, { opening, projector });
}

export function textPaths(
  folder: string,
  { opening, projector = '' }: Pick<TextSide, 'opening' | 'projector'>,
): TextPaths {
  return {
    path: opening === '' ? folder : join(folder, opening),
    ...(projector === '' ? {} : { projectorPath: join(folder, projector) }),
  };
}
