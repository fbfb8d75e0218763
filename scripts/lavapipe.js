// Lavapipe, Mesa's Vulkan driver that runs on the processor, in build/lavapipe. Debian 12's own is too old for
// Dawn; the one among its backports is fetched and unpacked, with what it needs and the machine lacks. Nothing is installed.

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SUITE = 'bookworm';
const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg';
const DRIVER = 'libvulkan_lvp.so';
const LOADER = 'libvulkan.so.1';
const folder = fileURLToPath(new URL('../build/lavapipe', import.meta.url));
/** Written last: it exists only where everything else does. */
const description = join(folder, 'lvp_icd.json');

function run(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    ...options,
  });
  if (error !== undefined) throw new Error(`${command} cannot be run (${error.message})`);
  if (status !== 0) throw new Error(`${command} ${args.at(-1)} failed: ${stderr.trim().split('\n')[0]}`);
  return stdout;
}

/** This machine's Debian mirror. */
function mirror() {
  const uris = run('apt-get', ['update', '--print-uris']);
  const found = new RegExp(`'(\\S+)/dists/${SUITE}/(?:In)?Release'`).exec(uris)?.[1];
  if (found === undefined) throw new Error(`apt has no source of Debian's ${SUITE}`);
  return found;
}

/** Apt with its own lists and archives, so that the machine's stay as they are. */
function privateApt(work) {
  for (const part of ['lists/partial', 'archives/partial', 'debs'])
    mkdirSync(join(work, part), { recursive: true });
  const signed = existsSync(KEYS) ? `[signed-by=${KEYS}] ` : '';
  const from = mirror();
  const sources = [SUITE, `${SUITE}-backports`].map((suite) => `deb ${signed}${from} ${suite} main\n`);
  writeFileSync(join(work, 'sources.list'), sources.join(''));
  const settings = {
    'Dir::Etc::sourcelist': join(work, 'sources.list'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::State::lists': join(work, 'lists'),
    'Dir::Cache': work,
    'Acquire::Languages': 'none',
    'Acquire::http::Timeout': '10',
    'Acquire::https::Timeout': '10',
    'APT::Sandbox::User': 'root',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  return (command, ...args) => run(command, [...flags, ...args], { cwd: join(work, 'debs') });
}

function unpack(apt, work, packages) {
  apt('apt-get', 'download', '-qq', ...packages);
  const debs = join(work, 'debs');
  for (const name of readdirSync(debs)) run('dpkg', ['-x', join(debs, name), join(work, 'root')]);
}

function libraryFolders(work) {
  return ['usr/lib', 'lib'].map((part) => join(work, 'root', part, 'x86_64-linux-gnu'));
}

/** The files the driver needs, by name; undefined where there is no driver. */
function neededLibraries(work) {
  const [first] = libraryFolders(work);
  const env = { ...process.env, LD_LIBRARY_PATH: libraryFolders(work).join(':') };
  const lines = run('ldd', [join(first, DRIVER)], { env }).split('\n');
  const needed = new Map();
  for (const line of lines) {
    const [, name, place] = /^\s*(\S+) => (not found|\S+)/.exec(line) ?? [];
    if (name !== undefined) needed.set(name, place === 'not found' ? undefined : place);
  }
  return needed;
}

function missingPackages(apt) {
  const installed = new Set(
    [...run('dpkg', ['--get-selections']).matchAll(/^([^\s:]+)\S*\s+(?:install|hold)$/gm)].map(
      ([, name]) => name,
    ),
  );
  const kinds = ['recommends', 'suggests', 'conflicts', 'breaks', 'replaces', 'enhances'];
  const flags = ['--recurse', ...kinds.map((kind) => `--no-${kind}`)];
  return apt('apt-cache', 'depends', ...flags, 'mesa-vulkan-drivers')
    .split('\n')
    .filter((name) => name.startsWith('lib') && !installed.has(name));
}

function fetchInto(work) {
  const apt = privateApt(work);
  apt('apt-get', 'update', '-qq');
  const backported = ['mesa-vulkan-drivers', 'libdrm2'].map((name) => `${name}/${SUITE}-backports`);
  unpack(apt, work, [...backported, 'libvulkan1']);
  if ([...neededLibraries(work).values()].includes(undefined)) unpack(apt, work, missingPackages(apt));
  const needed = neededLibraries(work);
  const missing = [...needed].filter(([, place]) => place === undefined).map(([name]) => name);
  if (missing.length > 0) throw new Error(`it needs ${missing.join(', ')}`);
  mkdirSync(folder, { recursive: true });
  const [first] = libraryFolders(work);
  for (const name of [DRIVER, LOADER]) cpSync(join(first, name), join(folder, name), { dereference: true });
  for (const [name, place] of needed) {
    if (place.startsWith(work)) cpSync(place, join(folder, name), { dereference: true });
  }
  const icd = { file_format_version: '1.0.0', ICD: { library_path: `./${DRIVER}`, api_version: '1.4.305' } };
  writeFileSync(description, JSON.stringify(icd));
}

/** Throws where it cannot be had. */
export function bringLavapipe(log) {
  if (existsSync(description)) return;
  const work = mkdtempSync(join(tmpdir(), 'chairlift-lavapipe-'));
  try {
    log(`fetching lavapipe out of Debian's ${SUITE}-backports`);
    fetchInto(work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
