// Compiles the kernels of the CUDA backend with NVIDIA's compiler. Usage: node scripts/cuda-kernels.js writes the PTX that the
// repository keeps, native/cuda/kernels.ptx.br and vision.ptx.br, and the compiler's reports, kernels.txt and vision.txt, where sources
// have changed; with --check it only says whether these are of the present sources, and where there is a compiler of the reports'
// release, whether that still reports the same.

import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { hashOf, nativeFolder, runCompiler, Slots, textsOf } from './build-native.js';
import { readReport, releaseOf, reportOf } from './cuda-report.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
/**
 * Kernels that are compiled together.
 * @typedef {{ name: string, source: string, ptx: string, report: string }} Unit
 */

const unitOf = (name) => ({
  name,
  source: `cuda/kernels/${name}.cu`,
  ptx: join(nativeFolder, 'cuda', `${name}.ptx.br`),
  report: join(nativeFolder, 'cuda', `${name}.txt`),
});

/** @type {Unit} */
export const mainUnit = unitOf('kernels');
/** Of models that see.
 * @type {Unit} */
export const visionUnit = unitOf('vision');

/** Each runs on every GPU of this compute capability or a higher one: the driver compiles it for that. */
const portableTargets = [75, 80, 90];
/** Machine code, which a GPU of the same major number and no lower minor one takes as it is. */
const machineTargets = [75, 80, 86, 89, 90, 100, 120];

// The compiler writes its own version of PTX, which older drivers refuse. This one is of CUDA 12.0, driver 525.
const ptxVersion = '8.0';
const oldestAssembler = 'nvidia-cuda-nvcc-cu12==12.0.140';
const compilerPackages = ['cuda-nvcc', 'nvvm', 'cuda-crt', 'cuda-runtime', 'cuda-cccl'].map(
  (name) => `nvidia-${name}==13.*`,
);

const flags = ['-O3', '-std=c++17', '-fmad=false', '-I', nativeFolder];

/** Changes with the kernels, with what they include and with how they are compiled. */
export function kernelSourcesHash({ source }) {
  const texts = textsOf(nativeFolder, source, new Set([join(nativeFolder, 'cuda/simulator/threads.h')]));
  return hashOf([...texts, ptxVersion, ...flags.filter((flag) => flag !== nativeFolder)]);
}

/** A line of JSON that lists the images, then the images: see src/compute/cuda/kernel-images.ts, which reads them. */
function pack(sources, images) {
  const list = images.map(({ kind, capability, content }) => ({ kind, capability, bytes: content.length }));
  const header = Buffer.from(`${JSON.stringify({ sources, images: list })}\n`);
  const all = Buffer.concat([header, ...images.map(({ content }) => content)]);
  const { BROTLI_PARAM_LGWIN: window, BROTLI_PARAM_SIZE_HINT: size } = constants;
  return brotliCompressSync(all, {
    params: { [window]: constants.BROTLI_MAX_WINDOW_BITS, [size]: all.length },
  });
}

/** What a packed file holds, and the hash of the sources that it was compiled from. */
function unpack(path) {
  const all = brotliDecompressSync(readFileSync(path));
  const header = all.indexOf('\n');
  const { sources, images } = JSON.parse(all.subarray(0, header).toString());
  let start = header + 1;
  return {
    sources,
    images: images.map(({ kind, capability, bytes }) => {
      start += bytes;
      return { kind, capability, content: all.subarray(start - bytes, start) };
    }),
  };
}

/** Of the PTX that the repository keeps. */
function ownReport(compiler, unit) {
  const { sources, images } = unpack(unit.ptx);
  const texts = images.map(({ capability, content }) => ({
    capability,
    text: content.toString().slice(0, -1),
  }));
  return reportOf(assemblerOf(compiler), sources, texts);
}

function works(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** Installs packages of PyPI in a folder of build/; undefined where Python or the network is missing. */
function fromPyPi(name, packages, file) {
  const folder = join(root, 'build', name);
  const find = () => {
    const files = existsSync(folder) ? readdirSync(folder, { recursive: true }).map(String) : [];
    const found = files.find((path) => path.endsWith(join('bin', file)));
    return found && join(folder, found);
  };
  if (find() === undefined) {
    const install = ['-m', 'pip', 'install', '--quiet', '--target', folder, ...packages];
    spawnSync('python3', install, { stdio: ['ignore', 2, 2] });
  }
  return find();
}

/** Of the system, of CUDA_HOME, or PyPI's. */
export function findCudaCompiler() {
  const homes = [process.env.CUDA_HOME, process.env.CUDA_PATH].filter((home) => home !== undefined);
  const folders = [...homes.map((home) => join(home, 'bin')), ...(process.env.PATH ?? '').split(delimiter)];
  return (
    folders.map((folder) => join(folder, 'nvcc')).find((path) => existsSync(path) && works(path)) ??
    fromPyPi('cuda-compiler', compilerPackages, 'nvcc')
  );
}

const assemblerOf = (compiler) => join(dirname(compiler), 'ptxas');

export const noCudaCompiler =
  'CUDA’s compiler was not found: put nvcc on the PATH, set CUDA_HOME, or install Python 3 with pip';

const slots = new Slots();

function compile(compiler, { source }, target, path) {
  const include = ['-I', join(dirname(compiler), '..', 'include')];
  const args = [...flags, ...include, ...target, join(nativeFolder, source), '-o', path];
  return slots.run(async () => {
    await runCompiler(compiler, args);
    return readFileSync(path);
  });
}

/** In the older version of PTX, which knows no hints about bytes that are not used; ends with a zero, as the driver wants it. */
function inOlderPtx(text) {
  const lowered = text
    .replace(/^\.version .*$/m, `.version ${ptxVersion}`)
    .replace(/^\s*\.pragma "used_bytes_mask .*\n/gm, '')
    .replace(/^\/\/.*\n/gm, '');
  return `${lowered}\0`;
}

/** That the assembler of the oldest driver takes it. */
async function checkPtx(assembler, capability, text, folder) {
  const path = join(folder, `checked-${capability}.ptx`);
  writeFileSync(path, text.slice(0, -1));
  const args = [`-arch=sm_${capability}`, path, '-o', join(folder, `checked-${capability}.cubin`)];
  await slots
    .run(() => runCompiler(assembler, args))
    .catch((error) => {
      throw new Error(`PTX for ${capability} is refused by ${oldestAssembler}: ${error.message}`);
    });
}

async function inTemporaryFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-cuda-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** PTX for every GPU, in the file that the repository keeps. */
export function writePtx(compiler, unit, { log = (_line) => {}, path = unit.ptx } = {}) {
  const assembler = fromPyPi('cuda-oldest', ['--no-deps', oldestAssembler], 'ptxas');
  if (assembler === undefined) {
    log(`PTX was not checked with ${oldestAssembler}, which could not be installed.`);
  }
  return inTemporaryFolder(async (folder) => {
    const imageFor = async (capability) => {
      const target = ['-ptx', `-arch=compute_${capability}`];
      const written = await compile(compiler, unit, target, join(folder, `kernels-${capability}.ptx`));
      const text = inOlderPtx(written.toString());
      if (assembler !== undefined) await checkPtx(assembler, capability, text, folder);
      return { kind: 'ptx', capability, content: Buffer.from(text) };
    };
    const images = await Promise.all(portableTargets.map(imageFor));
    writeFileSync(path, pack(kernelSourcesHash(unit), images));
    return path;
  });
}

/**
 * Machine code for packages, which spares GPUs' drivers the compiling at the first start. What the present sources were compiled to is
 * kept in build/: seven targets take two cores a quarter of an hour.
 */
export async function writeMachineCode(compiler, unit, path) {
  const sources = kernelSourcesHash(unit);
  const folder = join(root, 'build', `cuda-${unit.name}`);
  mkdirSync(folder, { recursive: true });
  for (const stale of readdirSync(folder).filter((name) => !name.startsWith(`${sources}-`))) {
    rmSync(join(folder, stale));
  }
  const imageFor = async (capability) => {
    const kept = join(folder, `${sources}-${capability}.cubin`);
    if (!existsSync(kept)) {
      await compile(compiler, unit, ['-cubin', `-arch=sm_${capability}`], `${kept}.part`);
      renameSync(`${kept}.part`, kept);
    }
    return { kind: 'cubin', capability, content: readFileSync(kept) };
  };
  const images = await Promise.all(machineTargets.map(imageFor));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, pack(sources, images));
  return path;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const progress = new Progress('chairlift kernels');
  const fail = (line) => {
    progress.log(line);
    process.exit(1);
  };
  const isOf = (unit, path, sourcesOf) => existsSync(path) && sourcesOf(path) === kernelSourcesHash(unit);
  const isCompiled = (unit) => isOf(unit, unit.ptx, (path) => unpack(path).sources);
  const isReported = (unit) =>
    isOf(unit, unit.report, (path) => readReport(readFileSync(path, 'utf8')).sources);
  const during = (name, work) => progress.during(name, work).catch((error) => fail(error.message));
  const writeReport = async (compiler, unit) => {
    writeFileSync(unit.report, await ownReport(compiler, unit));
    return unit.report;
  };
  const check = async (unit) => {
    if (!isCompiled(unit) || !isReported(unit)) {
      fail('the sources have changed since: node scripts/cuda-kernels.js compiles them again.');
    }
    const compiler = findCudaCompiler();
    const kept = readFileSync(unit.report, 'utf8');
    const release = compiler && (await releaseOf(assemblerOf(compiler)));
    if (release !== readReport(kept).release) {
      progress.log(
        `${unit.report} was not checked: ${compiler ? `the compiler is of ${release}` : noCudaCompiler}`,
      );
    } else if ((await during('assembling CUDA kernels', () => ownReport(compiler, unit))) !== kept) {
      fail(`${unit.report} is not what the compiler reports: node scripts/cuda-kernels.js writes it again.`);
    }
  };
  const write = async (unit) => {
    const compiled = isCompiled(unit);
    if (compiled && isReported(unit)) return;
    const compiler = findCudaCompiler() ?? fail(noCudaCompiler);
    const log = (line) => progress.log(line);
    if (!compiled)
      progress.log(await during('compiling CUDA kernels', () => writePtx(compiler, unit, { log })));
    progress.log(await during('assembling CUDA kernels', () => writeReport(compiler, unit)));
  };
  for (const unit of [mainUnit, visionUnit]) {
    if (process.argv.includes('--check')) await check(unit);
    else await write(unit);
  }
  progress.log('the kernels are up to date.');
}
