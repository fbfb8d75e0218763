// The routes of /openapi.json, in groups.

import type { Schema } from './schema.ts';

interface Content {
  readonly schema?: Schema;
  readonly example?: unknown;
}

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly { readonly name: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>;
}

export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Omit<Operation, 'method' | 'path'>>>>>;
}

const groups: readonly (readonly [name: string, belongs: (path: string) => boolean])[] = [
  ['Administration', (path) => path.startsWith('/admin/') || path === '/live'],
  ["Ollama's protocol", (path) => path.startsWith('/api/')],
  ["Anthropic's protocol", (path) => path.startsWith('/v1/messages')],
  ["OpenAI's protocol and its like", (path) => /^\/v[12]\//.test(path)],
  ['Other routes', () => true],
];

export interface Group {
  readonly name: string;
  readonly operations: readonly Operation[];
}

/** `sought`: only those that have all of these words. */
export function groupsOf({ paths }: ApiDocument, sought: string): Group[] {
  const words = sought.toLowerCase().split(/\s+/);
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, about]): Operation => ({ ...about, method: method.toUpperCase(), path }),
    ),
  );
  const found = all.filter(({ method, path, summary }) => {
    const text = `${method} ${path} ${summary}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const nameOf = (path: string) => groups.find(([, belongs]) => belongs(path))?.[0];
  const order = [3, 2, 1, 4, 0].map((at) => groups[at]?.[0] ?? '');
  return order
    .map((name) => ({ name, operations: found.filter(({ path }) => nameOf(path) === name) }))
    .filter(({ operations }) => operations.length > 0);
}
