// The rooms import one way only; a few things belong to one file alone.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const src = fileURLToPath(new URL('../src/', import.meta.url));
const benchmarks = fileURLToPath(new URL('../bench/', import.meta.url));

/** What lies below an engine, and the engine. */
const inner = [
  'engine',
  'engine/cache',
  'engine/scheduler',
  'engine/live',
  'block-store',
  'sampling',
  'compute',
  'model',
  'text',
  'weights',
] as const;

/** Any room may say what went wrong. */
const errorMessage = 'runtime/error-message.ts';

// What each room may import beside itself. A room that is missing here is a mistake.
const allowed: Readonly<Record<string, readonly string[]>> = {
  weights: [],
  grammar: [],
  model: ['weights'],
  text: ['weights', 'grammar', 'runtime'],
  images: ['model', 'runtime'],
  compute: ['model', 'weights', 'sampling', 'runtime'],
  'engine/cache': ['compute'],
  'engine/scheduler': ['engine/cache', 'sampling', 'compute', 'model'],
  'engine/live': ['engine/scheduler'],
  sampling: [],
  runtime: [],
  'block-store': ['runtime'],
  tracing: ['runtime'],
  engine: [
    'engine/cache',
    'engine/scheduler',
    'engine/live',
    'block-store',
    'grammar',
    'sampling',
    'compute',
    'model',
    'weights',
  ],
  pool: ['block-store', 'runtime', 'grammar', ...inner],
  'fleet/routing': ['engine/cache', 'engine/scheduler', 'compute'],
  store: [],
  generation: [
    'runtime',
    'pool',
    'engine',
    'grammar',
    'images',
    'sampling',
    'compute',
    'model',
    'text',
    'weights',
  ],
  upstream: ['generation', 'pool', 'sampling'],
  server: [
    'runtime',
    'tracing',
    'store',
    'upstream',
    'generation',
    'images',
    'pool',
    'engine',
    'engine/live',
    'grammar',
    'sampling',
    'text',
  ],
  fleet: ['runtime', 'tracing', 'fleet/routing', 'images', 'pool', 'grammar', ...inner],
  config: [],
  app: [
    'fleet',
    'runtime',
    'tracing',
    'config',
    'server',
    'upstream',
    'store',
    'bench',
    'generation',
    'images',
    'pool',
    'engine',
    'sampling',
    'compute',
    'text',
    'weights',
  ],
  index: ['app', 'generation', 'engine', 'text'],
  'engine entry': ['pool', ...inner],
  bench: inner,
  // The folder of developers' benchmarks beside src, which none of these may import.
  benchmarks: [
    'bench',
    'server',
    'fleet',
    'fleet/routing',
    'runtime',
    'pool',
    'grammar',
    'tracing',
    'generation',
    ...inner,
  ],
  cli: [
    'app',
    'fleet',
    'config',
    'store',
    'block-store',
    'bench',
    'generation',
    'images',
    'pool',
    'engine',
    'grammar',
    'sampling',
    'compute',
    'model',
    'text',
    'weights',
  ],
};

const files = filesOf(src);

function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .sort();
}

/** Folders that are rooms of their own. */
const innerRooms: readonly string[] = ['engine/cache', 'engine/scheduler', 'engine/live', 'fleet/routing'];

function roomOf(path: string): string {
  const [first = '', second = ''] = path.split('/');
  if (path === 'index.ts') return 'index';
  if (path === 'engine.ts') return 'engine entry';
  if (second === '') return 'config';
  return innerRooms.includes(`${first}/${second}`) ? `${first}/${second}` : first;
}

const texts = new Map<string, string>();

/** Each file is read once: the walks below come by most of them thousands of times. */
function textOf(path: string, folder = src): string {
  const full = join(folder, path);
  const text = texts.get(full) ?? readFileSync(full, 'utf8');
  texts.set(full, text);
  return text;
}

function importsOf(path: string, folder = src): string[] {
  const text = textOf(path, folder);
  return [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map(([, specifier]) => specifier as string);
}

const staticImports = new Map<string, readonly string[]>();

/** Files that are loaded, or looked at for their types, with this one. */
function staticImportsOf(path: string): readonly string[] {
  const known = staticImports.get(path);
  if (known !== undefined) return known;
  const found = [...textOf(path).matchAll(/from\s+'(\.[^']+)'/g)].map(([, specifier]) =>
    relative(src, join(src, dirname(path), specifier as string)),
  );
  staticImports.set(path, found);
  return found;
}

/** The file, what it imports, what that imports, and so on. */
function metBy(path: string): Set<string> {
  const met = new Set([path]);
  for (const one of met) for (const next of staticImportsOf(one)) met.add(next);
  return met;
}

describe('the arrows between rooms', () => {
  it.each(files)('%s imports only what its room may', (path) => {
    const room = roomOf(path);
    for (const specifier of importsOf(path).filter((name) => name.startsWith('.'))) {
      const imported = relative(src, join(src, dirname(path), specifier));
      const target = roomOf(imported);
      if (target !== room && imported !== errorMessage)
        expect(allowed[room], `${path} imports ${specifier}`).toContain(target);
    }
  });

  it.each(filesOf(benchmarks))('bench/%s imports its folder, and what of src it may', (path) => {
    for (const specifier of importsOf(path, benchmarks)) {
      if (specifier.startsWith('.'))
        expect(relative('.', join(dirname(path), specifier))).not.toMatch(/^\.\./);
      if (!specifier.startsWith('#')) continue;
      const imported = specifier.replace('#src/', '');
      if (imported !== errorMessage)
        expect(allowed.benchmarks, `${path} imports ${specifier}`).toContain(roomOf(imported));
    }
  });

  it('no file imports itself by way of others, types included', () => {
    for (const path of files) {
      for (const next of staticImportsOf(path)) {
        expect(metBy(next), `${path} imports ${next}`).not.toContain(path);
      }
    }
  });

  it('nothing in src imports a benchmark, or by the name that benchmarks have for src', () => {
    for (const path of files) {
      for (const specifier of importsOf(path)) {
        expect(specifier, path).not.toMatch(/^#/);
        const target = specifier.startsWith('.') ? relative(src, join(src, dirname(path), specifier)) : '';
        expect(target, path).not.toMatch(/^\.\./);
      }
    }
  });

  it.each(['engine/scheduler', 'engine/cache', 'engine/live', 'sampling', 'fleet/routing'])(
    '%s is pure: no I/O, no clock',
    (room) => {
      for (const path of files.filter((name) => roomOf(name) === room)) {
        expect(importsOf(path).filter((name) => name.startsWith('node:'))).toEqual([]);
        expect(textOf(path)).not.toMatch(/Date\.now|performance\.|setTimeout|Math\.random/);
      }
    },
  );

  it('a fleet reads no clock and no randomness of its own: both are passed in, except where NATS itself is spoken to', () => {
    const own =
      /Date\.now|performance\.|setTimeout|setInterval|setImmediate|Math\.random|randomUUID|import .*randomBytes/;
    const readers = files.filter((path) => roomOf(path) === 'fleet' && own.test(textOf(path)));
    expect(readers).toEqual(['fleet/bucket.ts', 'fleet/nats-bus.ts']);
  });

  it('a program that only loads models never meets the HTTP edge: that comes with serve() alone', () => {
    const met = metBy('index.ts');
    expect(met).toContain('app/model-calls.ts');
    expect([...met].filter((path) => roomOf(path) === 'server')).toEqual([]);
  });

  it('a program that puts an engine together never meets the server, its store or its settings', () => {
    const rooms = new Set([...metBy('engine.ts')].map(roomOf));
    expect(rooms).toContain('engine/scheduler');
    expect([...rooms].filter((room) => ['app', 'server', 'store', 'config', 'fleet'].includes(room))).toEqual(
      [],
    );
  });

  it('a command starts without the others: each is loaded where it is asked for', () => {
    const rooms = new Set([...metBy('cli/main.ts')].map(roomOf));
    expect(rooms).toContain('config');
    expect([...rooms].filter((room) => ['app', 'bench', 'server', 'engine', 'model'].includes(room))).toEqual(
      [],
    );
  });

  it('the addon is loaded in one file, and what is slow as ES modules in another', () => {
    const loaders = files.filter((path) => /createRequire|process\.dlopen/.test(textOf(path)));
    expect(loaders).toEqual(['runtime/native-addon.ts', 'store/query-builder.ts']);
  });

  it('the environment is read in one file at most', () => {
    const readers = files.filter((path) => /process\.env/.test(textOf(path)));
    expect(readers.filter((path) => path !== 'config.ts')).toEqual([]);
  });
});
