// The GPU: finds an adapter through the optional package `webgpu` (Dawn) and opens it. The only file that loads it.

import { existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { messageOf } from '../../runtime/error-message.ts';

export interface GpuInfo {
  readonly name: string;
  /** A software adapter: slower than the CPU backend, good for tests. */
  readonly software: boolean;
  /** It has no memory of its own and takes the machine's. */
  readonly unified: boolean;
  readonly features: readonly string[];
  readonly limits: {
    readonly bufferBytes: number;
    readonly bindingBytes: number;
    readonly workgroupBytes: number;
    readonly workgroupThreads: number;
  };
}

export interface Gpu {
  readonly info: GpuInfo;
  readonly device: GPUDevice;
  close(): void;
}

export class GpuUnavailableError extends Error {
  override readonly name = 'GpuUnavailableError';
}

interface DawnModule {
  create(options: string[]): GPU;
  readonly globals: Record<string, unknown>;
}

const ownCopy = fileURLToPath(new URL('../../../build/webgpu/node_modules/webgpu/index.js', import.meta.url));

/** Whether the package is there, without loading it. */
export function hasGpuPackage(): boolean {
  if (existsSync(ownCopy)) return true;
  try {
    return import.meta.resolve('webgpu') !== '';
  } catch {
    return false;
  }
}

const REMEDY = 'run "npm install webgpu" next to chairlift, or "npm run setup -- --gpu" in a checkout';

/** From the program's own dependencies, or from what set-up has installed. */
async function loadDawn(): Promise<DawnModule> {
  const specifiers = ['webgpu', ...(existsSync(ownCopy) ? [pathToFileURL(ownCopy).href] : [])];
  let reason = 'it is not installed';
  for (const specifier of specifiers) {
    try {
      return (await import(specifier)) as DawnModule;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== 'ERR_MODULE_NOT_FOUND') reason = messageOf(error);
    }
  }
  throw new GpuUnavailableError(`the package webgpu could not be loaded: ${reason}; ${REMEDY}`);
}

// Kernels do not check bounds: token ids, tables, biased ids and masks are checked before they reach one.
const TOGGLES = 'enable-dawn-features=disable_robustness';

// Dawn aborts the process when an instance is collected while a device lives.
const instances: GPU[] = [];

async function openInstance(name: string | undefined): Promise<GPU> {
  const { create, globals } = await loadDawn();
  Object.assign(globalThis, globals);
  const instance = create([TOGGLES, ...(name === undefined ? [] : [`adapter=${name}`])]);
  instances.push(instance);
  return instance;
}

async function findAdapter(name: string | undefined): Promise<GPUAdapter> {
  const instance = await openInstance(name);
  let adapter: GPUAdapter | null;
  try {
    adapter = await instance.requestAdapter({ powerPreference: 'high-performance' });
  } catch (error) {
    throw new GpuUnavailableError(`no GPU${name === undefined ? '' : ` named ${name}`}: ${messageOf(error)}`);
  }
  if (adapter !== null) return adapter;
  throw new GpuUnavailableError(
    name === undefined
      ? 'no GPU was found; its driver must offer CUDA 12 (NVIDIA), Vulkan 1.1, Metal or Direct3D 12'
      : `no GPU named ${name} was found`,
  );
}

/** WebGPU does not report it; Intel's discrete GPUs are of the families for games (hpg) and servers (hpc). */
function isUnified({ vendor, architecture }: GPUAdapterInfo): boolean {
  return vendor === 'apple' || (vendor === 'intel' && !/hp[gc]$/.test(architecture));
}

export function describeAdapter(adapter: Pick<GPUAdapter, 'info' | 'limits' | 'features'>): GpuInfo {
  const { info, limits } = adapter;
  return {
    name: info.device || info.description || info.architecture || 'unknown',
    software:
      info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${info.device} ${info.description}`),
    unified: isUnified(info),
    features: [...adapter.features].sort(),
    limits: {
      bufferBytes: limits.maxBufferSize,
      // Kernels count words in 32 bits.
      bindingBytes: Math.min(limits.maxStorageBufferBindingSize, 2 ** 34 - 16),
      workgroupBytes: limits.maxComputeWorkgroupStorageSize,
      workgroupThreads: limits.maxComputeInvocationsPerWorkgroup,
    },
  };
}

/** What a GPU is like, without opening it. Throws GpuUnavailableError where there is none. */
export async function gpuInfo(name?: string): Promise<GpuInfo> {
  return describeAdapter(await findAdapter(name));
}

/** For benchmarks; kernels need no optional feature. */
const TIMER = 'timestamp-query';

/** Opens the named GPU, or the fastest. */
export async function openGpu(name?: string): Promise<Gpu> {
  const adapter = await findAdapter(name);
  const info = describeAdapter(adapter);
  const { limits } = adapter;
  const device = await adapter.requestDevice({
    requiredFeatures: adapter.features.has(TIMER) ? [TIMER] : [],
    requiredLimits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
      maxComputeWorkgroupSizeX: limits.maxComputeWorkgroupSizeX,
      maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
    },
  });
  return { info, device, close: () => device.destroy() };
}
