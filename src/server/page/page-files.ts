// The page's files in memory, each with its compressed forms: read once, when the server is made.

import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export const builtPage = fileURLToPath(new URL('../../../dist/web/', import.meta.url));

const encodings = [
  { name: 'br', ending: '.br' },
  { name: 'gzip', ending: '.gz' },
] as const;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

interface FileForm {
  readonly encoding: string | undefined;
  readonly bytes: Buffer;
  readonly etag: string;
}

export interface PageFile {
  readonly type: string;
  readonly forms: readonly FileForm[];
}

export function readPageFiles(folder: string): ReadonlyMap<string, PageFile> {
  if (!existsSync(folder)) return new Map();
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
  const known = new Set(names);
  const isForm = (path: string) =>
    encodings.some(({ ending }) => path.endsWith(ending) && known.has(path.slice(0, -ending.length)));
  const files = names.filter((path) => !isForm(path));
  return new Map(files.map((path) => [nameIn(folder, path), readPageFile(path, known)]));
}

function nameIn(folder: string, path: string): string {
  return path.slice(join(folder, sep).length).split(sep).join('/');
}

function readPageFile(path: string, known: ReadonlySet<string>): PageFile {
  const plain = readFileSync(path);
  const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  const compressed = encodings.filter(({ ending }) => known.has(path + ending));
  return {
    type: types[extname(path)] ?? 'application/octet-stream',
    forms: [
      ...compressed.map(({ name, ending }) => ({
        encoding: name,
        bytes: readFileSync(path + ending),
        etag: `"${hash}-${name}"`,
      })),
      { encoding: undefined, bytes: plain, etag: `"${hash}"` },
    ],
  };
}

export function formFor({ forms }: PageFile, accepted: string | undefined): FileForm {
  const weights = new Map(
    (accepted ?? '').split(',').map((each): [string, number] => {
      const [name = '', weight = ''] = each.split(';').map((part) => part.trim().toLowerCase());
      return [name, weight.startsWith('q=') ? Number(weight.slice(2)) : 1];
    }),
  );
  const takes = (name: string) => (weights.get(name) ?? weights.get('*') ?? 0) > 0;
  const taken = forms.find(({ encoding }) => encoding === undefined || takes(encoding));
  return taken as FileForm;
}

export function isKnown(etag: string, ifNoneMatch: string | undefined): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((each) => {
    const tag = each.trim().replace(/^W\//, '');
    return tag === '*' || tag === etag;
  });
}
