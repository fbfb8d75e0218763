// What NVIDIA's assembler reports of the CUDA kernels: registers of a thread, and bytes of them that are spilled to memory. The
// repository keeps a table of it next to the PTX, which a test holds to limits without the compiler.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * @typedef {object} Spill
 * @property {string} name
 * @property {number} capability
 * @property {number} spilled bytes stored
 */

/** @typedef {Spill & { registers: number }} KernelReport */

/** @typedef {readonly { readonly capability: number, readonly text: string }[]} PtxTexts */

/** Products and attention have many kernels each; all others are one family. */
const families = /^(attend_[a-z]+|few\d|floats(\d|_many)|many|middle)(?=_)/;

/** @param {string} kernel */
export function familyOf(kernel) {
  return families.exec(kernel)?.[0] ?? 'others';
}

/** @param {string} assembler */
export async function releaseOf(assembler) {
  const { stdout } = await run(assembler, ['--version']);
  return /release (\S+),/.exec(stdout)?.[1] ?? 'unknown';
}

/**
 * @param {string} log what ptxas -v writes
 * @param {number} capability
 * @returns {KernelReport[]}
 */
function readLog(log, capability) {
  const entry =
    /Compiling entry function '(\w+)'[\s\S]*?(\d+) bytes spill stores[\s\S]*?Used (\d+) registers/g;
  return [...log.matchAll(entry)].map(([, name, spilled, registers]) => ({
    name,
    capability,
    registers: Number(registers),
    spilled: Number(spilled),
  }));
}

/**
 * Assembles the PTX of all targets at once, which takes some 20 seconds each.
 * @param {string} assembler the path of ptxas
 * @param {string} sources the hash of what the PTX was compiled from
 * @param {PtxTexts} images
 */
export async function reportOf(assembler, sources, images) {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-cuda-'));
  try {
    const assemble = async ({ capability, text }) => {
      const path = join(folder, `${capability}.ptx`);
      writeFileSync(path, text);
      const args = ['-v', `-arch=sm_${capability}`, path, '-o', `${path}.cubin`];
      const { stderr } = await run(assembler, args, { maxBuffer: 2 ** 26 });
      return readLog(stderr, capability);
    };
    const reports = (await Promise.all(images.map(assemble))).flat();
    const capabilities = images.map(({ capability }) => capability);
    return tableOf(reports, capabilities, sources, await releaseOf(assembler));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {readonly KernelReport[]} reports
 * @param {readonly number[]} capabilities
 * @param {string} sources
 * @param {string} release
 */
function tableOf(reports, capabilities, sources, release) {
  const width = Math.max(...reports.map(({ name }) => name.length)) + 1;
  const line = (name, values) =>
    name.padEnd(width) + values.map((value) => String(value).padStart(6)).join('');
  const columns = capabilities.map((capability) => `sm_${capability}`);
  const most = (field, isOne) =>
    capabilities.map((capability) =>
      Math.max(
        ...reports.filter((one) => one.capability === capability && isOne(one)).map((one) => one[field]),
      ),
    );
  const names = [...new Set(reports.map(({ name }) => name))].sort();
  const groups = [...new Set(names.map(familyOf))].sort();
  const registers = groups.map((family) => {
    const count = names.filter((name) => familyOf(name) === family).length;
    return line(
      `${family} (${count})`,
      most('registers', ({ name }) => familyOf(name) === family),
    );
  });
  const spills = names
    .map((kernel) => ({ kernel, bytes: most('spilled', ({ name }) => name === kernel) }))
    .filter(({ bytes }) => bytes.some((count) => count > 0))
    .map(({ kernel, bytes }) => line(kernel, bytes));
  return [
    `CUDA kernels as ptxas ${release} reports them. node scripts/cuda-kernels.js writes this file with the PTX.`,
    `sources ${sources}`,
    '',
    line('most registers of a thread', columns),
    ...registers,
    '',
    line('bytes spilled', columns),
    ...spills,
    '',
  ].join('\n');
}

/**
 * @param {string} table
 * @returns {{ sources: string, release: string, kernels: number, spills: Spill[] }}
 */
export function readReport(table) {
  const [, registers = '', spilled = ''] = table.split('\n\n');
  const kernels = [...registers.matchAll(/ \((\d+)\) /g)].reduce((sum, [, count]) => sum + Number(count), 0);
  const [head = '', ...rows] = spilled.trim().split('\n');
  const capabilities = [...head.matchAll(/sm_(\d+)/g)].map(([, capability]) => Number(capability));
  const spills = rows.flatMap((row) => {
    const [name = '', ...bytes] = row.split(/\s+/);
    return bytes.map((count, at) => ({ name, capability: capabilities[at] ?? 0, spilled: Number(count) }));
  });
  return {
    sources: /^sources (\w+)$/m.exec(table)?.[1] ?? '',
    release: /ptxas (\S+) reports/.exec(table)?.[1] ?? '',
    kernels,
    spills,
  };
}
