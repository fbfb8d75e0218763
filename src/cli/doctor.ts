// `chairlift doctor`: whether this machine can serve, line by line, with what to do about problems. Exits with 1 where
// something prevents serving.

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Command } from 'commander';
import { tryAddress } from '../app/addresses.ts';
import { loadAddon, missingKernels } from '../compute/cpu/binding.ts';
import { type CudaProbe, isNvidiaLikely, probeCuda } from '../compute/cuda/probe.ts';
import { type ProbeResult, probeGpu } from '../compute/webgpu/probe.ts';
import { processInputs, resolveConfig } from '../config.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import { defaultDatabasePath, IN_MEMORY } from '../store/database.ts';
import { isPostgresAddress, withoutPassword } from '../store/postgres-address.ts';
import { formatBytes } from '../text/byte-size.ts';
import { addFolderOptions, type FolderFlags, modelFolder, modelsOnDisk } from './models-on-disk.ts';

interface DoctorOptions extends FolderFlags {
  readonly port?: string;
  readonly json?: true;
}

export function addDoctor(program: Command): void {
  const command = program.command('doctor').description('check whether this machine can serve');
  addFolderOptions(command)
    .option('--port <port>', 'the port to serve on; 8000 where unset')
    .option('--json', 'print JSON')
    .action(async (options: DoctorOptions) => {
      const checks = await examine(options);
      process.stdout.write(`${options.json ? JSON.stringify(checks) : layOut(checks)}\n`);
      if (checks.some(({ state }) => state === 'fail')) process.exitCode = 1;
    });
}

async function examine(options: DoctorOptions): Promise<Check[]> {
  const { config } = resolveConfig(processInputs({ ...options }));
  const models = modelsOnDisk(options);
  const cuda = isNvidiaLikely() ? await probeCuda() : undefined;
  return [
    checkNode(process.versions.node),
    await checkCompiler(),
    checkAddon(),
    ...(cuda === undefined ? [] : [checkCuda(cuda)]),
    // It is chosen before WebGPU.
    ...(cuda?.found === true ? [] : [await checkGpu()]),
    checkMemory(models),
    checkEmbeddedModel(),
    checkModels(models, modelFolder(options)),
    checkDatabase(config.database ?? defaultDatabasePath()),
    await checkPort(config.host, config.port),
  ];
}

function layOut(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const indent = ' '.repeat(width + 8);
  const lines = checks.flatMap(({ state, name, detail, remedies = [] }) => [
    `${state.padEnd(4)}  ${name.padEnd(width)}  ${detail}`,
    ...remedies.map((remedy) => `${indent}→ ${remedy}`),
  ]);
  const failures = checks.filter(({ state }) => state === 'fail').length;
  const verdict =
    failures === 0 ? 'This machine can serve.' : `This machine cannot serve: ${failures} to put right first.`;
  return [...lines, '', verdict].join('\n');
}

export interface Check {
  readonly name: string;
  /** `warn`: it serves, but not as well as it could. `fail`: it cannot serve. */
  readonly state: 'ok' | 'warn' | 'fail';
  readonly detail: string;
  readonly remedies?: readonly string[];
}

const LEAST_NODE = 20;

export function checkNode(version: string): Check {
  const isOld = Number(version.split('.')[0]) < LEAST_NODE;
  const known = { name: 'Node.js', detail: version };
  return isOld
    ? { ...known, state: 'fail', remedies: [`install Node.js ${LEAST_NODE} or newer`] }
    : { ...known, state: 'ok' };
}

/** Searched as the build of the addon does. */
export async function checkCompiler(
  find: () => string | undefined | Promise<string | undefined> = findCompiler,
  load = loadAddon(),
): Promise<Check> {
  const name = 'C++ compiler';
  const compiler = await find();
  if (compiler !== undefined) return { name, state: 'ok', detail: compiler };
  if (load.available) return { name, state: 'ok', detail: 'none found, and none needed: the addon is there' };
  const remedies = ['install one (on Debian and Ubuntu: apt install g++; on macOS: xcode-select --install)'];
  return { name, state: 'warn', detail: 'none found, so the C++ addon cannot be built here', remedies };
}

async function findCompiler(): Promise<string | undefined> {
  const script = new URL('../../scripts/build-native.js', import.meta.url).href;
  return ((await import(script)) as { findCompiler(): string | undefined }).findCompiler();
}

export function checkAddon(load = loadAddon()): Check {
  const name = 'C++ addon';
  if (!load.available) {
    const detail = 'not available: the TypeScript backend would serve, many times slower';
    return { name, state: 'warn', detail, remedies: [load.reason] };
  }
  const kernels = load.addon.kernels();
  const origin = load.origin === 'built' ? 'built here' : 'came with the package';
  const detail = `loads, ${origin}; kernels: ${kernels.join(', ')}`;
  const missing = missingKernels(load.addon);
  if (missing !== undefined) return { name, state: 'warn', detail, remedies: [missing] };
  const isSlow = kernels.every((kernel) => kernel === 'scalar');
  if (!isSlow) return { name, state: 'ok', detail };
  return {
    name,
    state: 'warn',
    detail,
    remedies: ['no fast kernels exist for this processor; expect slow answers'],
  };
}

/** Without a likely GPU this is no problem. */
async function checkGpu(look: () => Promise<ProbeResult> = probeGpu): Promise<Check> {
  const name = 'GPU';
  const result = await look();
  if (!result.found)
    return { name, state: 'ok', detail: 'none: the processor serves', remedies: [result.reason] };
  const { info, memoryBytes } = result;
  const { bindingBytes, workgroupBytes } = info.limits;
  const features = ['shader-f16', 'subgroups', 'timestamp-query'].filter((one) =>
    info.features.includes(one),
  );
  const parts = [
    info.name,
    ...(info.software ? ['played by the processor: serves only if asked for'] : []),
    ...(memoryBytes === undefined ? [] : [`gives ${formatBytes(memoryBytes)}`]),
    features.join(', ') || 'no optional features',
    `binds up to ${formatBytes(bindingBytes)}`,
    `${formatBytes(workgroupBytes)} of workgroup memory`,
  ];
  return { name, state: 'ok', detail: parts.join('; ') };
}

/** Only where there is a driver of NVIDIA's. */
export function checkCuda(result: CudaProbe): Check {
  const name = 'CUDA';
  if (!result.found) {
    return { name, state: 'warn', detail: 'not used, though there is a driver', remedies: [result.reason] };
  }
  const { gpu, freeBytes } = result;
  const memory = `${formatBytes(freeBytes)} free of ${formatBytes(gpu.totalBytes)}`;
  return {
    name,
    state: 'ok',
    detail: `${gpu.name}; compute capability ${(gpu.capability / 10).toFixed(1)}; ${memory}`,
  };
}

interface Memory {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** A container's limit counts where it is lower. */
function machineMemory(): Memory {
  const limit = process.constrainedMemory();
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return { freeBytes: Math.min(freemem(), totalBytes), totalBytes };
}

export function checkMemory(models: readonly ModelOnDisk[], memory = machineMemory()): Check {
  const { freeBytes, totalBytes } = memory;
  const detail = `${formatBytes(freeBytes)} free of ${formatBytes(totalBytes)}`;
  const usable = models.filter(({ problem }) => problem === undefined);
  const tooLarge = usable.filter(({ sizeBytes }) => sizeBytes > freeBytes);
  if (tooLarge.length === 0) return { name: 'memory', state: 'ok', detail };
  const remedies = tooLarge.map(
    ({ name, sizeBytes }) =>
      `${name} needs more than ${formatBytes(sizeBytes)}: free some, or use a smaller model`,
  );
  return { name: 'memory', state: tooLarge.length < usable.length ? 'warn' : 'fail', detail, remedies };
}

export function checkEmbeddedModel(path = embeddedModelPath()): Check {
  const name = 'embedded model';
  if (existsSync(path)) return { name, state: 'ok', detail: path };
  return { name, state: 'warn', detail: `${path} is missing`, remedies: ['install the package again'] };
}

export function checkModels(models: readonly ModelOnDisk[], folder: string): Check {
  const broken = models.flatMap(({ problem }) => problem ?? []);
  const sound = models.length - broken.length;
  const detail = `${sound} to serve${broken.length > 0 ? `, ${broken.length} broken` : ''}; folder ${folder}`;
  if (sound === 0) {
    const remedies = [...broken, "bring one with 'chairlift pull owner/repo', or give its path with --model"];
    return { name: 'models', state: 'fail', detail, remedies };
  }
  return { name: 'models', state: broken.length > 0 ? 'warn' : 'ok', detail, remedies: broken };
}

/** Less would be filled by the first keys and a day of usage. */
const LEAST_DATABASE_BYTES = 1 << 20;

/** Does not open it: that would migrate its schema while an older server may still use it. */
export function checkDatabase(location: string): Check {
  const name = 'database';
  const detail = withoutPassword(location);
  if (location === IN_MEMORY) return { name, state: 'ok', detail: 'in memory' };
  if (isPostgresAddress(location)) return { name, state: 'ok', detail: `${detail}; not asked here` };
  const problem = fileProblem(resolve(location));
  if (problem === undefined) return { name, state: 'ok', detail };
  const remedies = ['mend that, or give serve another path with --database'];
  return { name, state: 'fail', detail: `${detail} ${problem}`, remedies };
}

function fileProblem(path: string): string | undefined {
  const folder = existingFolder(dirname(path));
  if (!statSync(folder).isDirectory()) return `cannot be made: ${folder} is no folder`;
  try {
    if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
    // SQLite writes files next to it.
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch {
    return 'may not be written by this user';
  }
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize < LEAST_DATABASE_BYTES ? 'cannot grow: the disk is full' : undefined;
}

/** The folder itself, or the nearest existing one above it. */
function existingFolder(path: string): string {
  return existsSync(path) ? path : existingFolder(dirname(path));
}

export async function checkPort(host: string, port: number): Promise<Check> {
  const name = `port ${port}`;
  const problem = await bindProblem(host, port);
  if (problem === undefined) return { name, state: 'ok', detail: `free on ${host}` };
  if (problem === 'EADDRINUSE') {
    const version = await runningVersion(host, port);
    if (version !== undefined)
      return { name, state: 'ok', detail: `Chairlift ${version} serves here already` };
    const remedies = ['end the program that uses it, or serve on another port with --port'];
    return { name, state: 'fail', detail: `in use by another program on ${host}`, remedies };
  }
  const remedies = ['serve on another --port or --host'];
  return { name, state: 'fail', detail: `cannot be used on ${host} (${problem})`, remedies };
}

function bindProblem(host: string, port: number): Promise<string | undefined> {
  return tryAddress(host, port).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );
}

const ANSWER_MS = 2000;

async function runningVersion(host: string, port: number): Promise<string | undefined> {
  const reachable =
    host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  try {
    const response = await fetch(`http://${reachable}:${port}/health`, {
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const { version, engines } = (await response.json()) as { version?: unknown; engines?: unknown };
    return typeof version === 'string' && Array.isArray(engines) ? version : undefined;
  } catch {
    return undefined;
  }
}
