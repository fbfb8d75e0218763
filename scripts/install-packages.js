// Installs the packages of package-lock.json. Those that only tests and checks want are as large as all others together, and
// have a workspace of their own (test/packages): they are left out until they are asked for.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const flags = ['--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline'];
const withoutTests = ['--workspace=web', '--include-workspace-root'];

/**
 * @param {string} root of the checkout
 * @param {{ forTests: boolean, npm: (args: string[]) => Promise<boolean> }} options `npm` runs it, and says whether it succeeded
 */
export async function installPackages(root, { forTests, npm }) {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const key = createHash('sha256').update(lock).update(process.version).digest('hex');
  const stamp = join(root, 'node_modules', '.chairlift-stamp');
  const stamped = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';
  if (stamped === `${key} all` || (stamped === `${key} without tests` && !forTests)) return true;
  if (!hasAll(root, lock) && !(await npm(['ci', ...flags, ...(forTests ? [] : withoutTests)]))) return false;
  writeFileSync(stamp, `${key} ${hasAll(root, lock) ? 'all' : 'without tests'}`);
  return true;
}

/** Somebody may have run `npm ci`, which records what it has installed. */
function hasAll(root, lock) {
  const record = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const { packages: installed } = JSON.parse(readFileSync(record, 'utf8'));
  return Object.entries(JSON.parse(lock).packages).every(
    ([path, { version, optional }]) =>
      !path.startsWith('node_modules/') || optional || installed[path]?.version === version,
  );
}
