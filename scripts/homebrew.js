// Makes the Homebrew formula of a package: ops/chairlift.rb with its address, version and checksum filled in.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

export function formulaFor({ bytes, version, url }) {
  // A quote or a backslash would end the text in Ruby, and #{…} would be run.
  if (!/^(https?|file):\/\/[^\s"'\\#]+\.tgz$/.test(url)) {
    throw new Error(
      `${url} is no address of a package: give one such as https://example.org/chairlift-${version}.tgz`,
    );
  }
  return readFileSync(join(root, 'ops', 'chairlift.rb'), 'utf8')
    .replace('PACKAGE_URL', url)
    .replace('PACKAGE_VERSION', version)
    .replace('PACKAGE_SHA256', createHash('sha256').update(bytes).digest('hex'));
}

/** Without an address the formula installs the local file. */
export function writeFormula(file, version, url = pathToFileURL(file).href) {
  const folder = join(root, 'build', 'homebrew');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'chairlift.rb');
  writeFileSync(path, formulaFor({ bytes: readFileSync(file), version, url }));
  return path;
}
