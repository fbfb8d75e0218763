// Checks that the package's addons keep their promises: their exports, their imports, and the oldest system they run on. Usage:
// node scripts/check-addon.js, which checks all in prebuilt/ and prints a line for each.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { readAddonFile } from './addon-file.js';
import { prebuiltTargets } from './cross-compiler.js';

const root = fileURLToPath(new URL('..', import.meta.url));

const offered = ['napi_register_module_v1', 'node_api_module_get_api_version_v1'];

/** By platform: the format, the libraries every system has, and the oldest supported version. */
const promises = {
  linux: {
    format: 'elf',
    libraries: /^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux-.*\.so\.\d)$/,
    minimum: '2.17',
  },
  darwin: { format: 'mach-o', libraries: /^\/usr\/lib\/libSystem\.B\.dylib$/, minimum: '11.0' },
  // Nothing is imported from node.exe by name: see system/host-functions.cc.
  win32: {
    format: 'pe',
    libraries: /^(kernel32|ntdll|api-ms-win-(crt|core)-[\w-]+)\.dll$/i,
    minimum: '10.0',
  },
};

export function addonFaults(addon, { platform, arch }) {
  const { format, libraries, minimum } = promises[platform];
  const faults = [];
  if (addon.format !== format) faults.push(`it is ${addon.format}, not ${format}`);
  if (addon.arch !== arch) faults.push(`it is for ${addon.arch}, not ${arch}`);
  if (addon.exports.join() !== offered.join())
    faults.push(`it exports ${addon.exports.join(', ') || 'nothing'}`);
  const others = addon.libraries.filter((name) => !libraries.test(name));
  if (others.length > 0) faults.push(`it needs ${others.join(', ')}`);
  const notOfNode = addon.hostImports.filter((name) => !name.startsWith('napi_'));
  if (notOfNode.length > 0) faults.push(`it looks for ${notOfNode.join(', ')} in the program that loads it`);
  if (addon.minimum.localeCompare(minimum, 'en', { numeric: true }) > 0) {
    faults.push(`it needs version ${addon.minimum} of the system, not ${minimum}`);
  }
  // Apple silicon runs only signed code, if only ad hoc.
  if (platform === 'darwin' && arch === 'arm64' && !addon.signed) faults.push('it has no signature');
  return faults;
}

/**
 * One line of what it is.
 * @param {import('./addon-file.js').AddonFile} addon
 */
export function describeAddon({ format, arch, libraries, minimum, imports, hostImports, signed }) {
  const signature = signed === undefined ? '' : signed ? ', signed' : ', not signed';
  return (
    `${format}, ${arch}, oldest system ${minimum || 'any'}${signature}, ` +
    `${imports.length} functions of ${libraries.join(', ')}, ${hostImports.length} of the program`
  );
}

export function checkAddonFile(path, target) {
  const addon = readAddonFile(readFileSync(path));
  const faults = addonFaults(addon, target);
  if (faults.length > 0) throw new Error(`${path}: ${faults.join('; ')}`);
  return describeAddon(addon);
}

function main() {
  const built = prebuiltTargets.filter(({ file }) => existsSync(join(root, 'prebuilt', file)));
  if (built.length === 0) {
    process.stderr.write('there is nothing in prebuilt/: npm run package makes it\n');
    process.exitCode = 1;
  }
  for (const target of built) {
    process.stdout.write(`${target.file}: ${checkAddonFile(join(root, 'prebuilt', target.file), target)}\n`);
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) main();
