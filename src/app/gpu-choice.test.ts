import { describe, expect, it } from 'vitest';
import type { CudaProbe } from '../compute/cuda/probe.ts';
import type { GpuInfo } from '../compute/webgpu/gpu.ts';
import type { ProbeResult } from '../compute/webgpu/probe.ts';
import { chooseGpu } from './gpu-choice.ts';

const info: GpuInfo = {
  name: 'Some GPU',
  software: false,
  unified: false,
  features: [],
  limits: { bufferBytes: 1, bindingBytes: 1, workgroupBytes: 1, workgroupThreads: 1 },
};
const hardware: ProbeResult = { found: true, info, memoryBytes: 8e9 };
const software: ProbeResult = { found: true, info: { ...info, software: true }, memoryBytes: undefined };
const missing: ProbeResult = { found: false, reason: 'the package webgpu could not be loaded' };

const search = (result: ProbeResult, likely = true) => ({
  isLikely: async () => likely,
  probe: async () => result,
  unifiedLimit: () => 6e9,
  isNvidiaLikely: () => false,
  probeCuda: async (): Promise<CudaProbe> => {
    throw new Error('nothing of NVIDIA’s was likely');
  },
});

const withCuda = (cuda: CudaProbe, result: ProbeResult) => ({
  ...search(result),
  isNvidiaLikely: () => true,
  probeCuda: async () => cuda,
});

const nvidia: CudaProbe = {
  found: true,
  gpu: { number: 0, name: 'Some NVIDIA', capability: 90, totalBytes: 9e9 },
  freeBytes: 7e9,
};
const tooOld: CudaProbe = { found: false, reason: 'the NVIDIA driver is too old' };

describe('a GPU', () => {
  const nobodySays = { backend: undefined, gpu: undefined };

  it('serves by itself where a hardware one is found, within the memory it gives', async () => {
    const choice = await chooseGpu(nobodySays, search(hardware));
    expect(choice).toMatchObject({ backend: 'webgpu', memoryBytes: 8e9 });
  });

  it('that shares the machine’s memory has what the system lets it have', async () => {
    const shared: ProbeResult = { found: true, info: { ...info, unified: true }, memoryBytes: undefined };
    const choice = await chooseGpu(nobodySays, search(shared));
    expect(choice).toMatchObject({ memoryBytes: undefined, unifiedBytes: 6e9 });
    expect((await chooseGpu(nobodySays, search(hardware))).unifiedBytes).toBeUndefined();
  });

  it('is not looked for where none is likely, or where the processor was asked for', async () => {
    const unlikely = await chooseGpu(nobodySays, search(hardware, false));
    expect(unlikely).toEqual({ backend: undefined });
    expect(await chooseGpu({ backend: 'cpu', gpu: undefined }, search(hardware))).toEqual({ backend: 'cpu' });
  });

  it('that is software serves only where it was asked for', async () => {
    expect((await chooseGpu(nobodySays, search(software))).backend).toBeUndefined();
    expect((await chooseGpu({ ...nobodySays, backend: 'webgpu' }, search(software))).backend).toBe('webgpu');
    expect((await chooseGpu({ ...nobodySays, gpu: 'Some' }, search(software))).backend).toBe('webgpu');
  });

  it('that was asked for and is not there leaves the processor to serve, and says why', async () => {
    const choice = await chooseGpu({ ...nobodySays, backend: 'webgpu' }, search(missing));
    expect(choice.backend).toBeUndefined();
    expect(choice.notice).toContain('the package webgpu could not be loaded');
  });

  it('that nobody asked for and is not there goes without a word', async () => {
    expect(await chooseGpu(nobodySays, search(missing))).toEqual({ backend: undefined });
  });
});

describe('a GPU of NVIDIA', () => {
  const nobodySays = { backend: undefined, gpu: undefined };

  it('serves with CUDA before WebGPU, within the memory that is free', async () => {
    const choice = await chooseGpu(nobodySays, withCuda(nvidia, hardware));
    expect(choice).toEqual({
      backend: 'cuda',
      memoryBytes: 7e9,
      notice: 'serving on the GPU Some NVIDIA with CUDA',
    });
  });

  it('serves with WebGPU where that was asked for, or where CUDA cannot be used, and says why', async () => {
    const asked = await chooseGpu({ ...nobodySays, backend: 'webgpu' }, withCuda(nvidia, hardware));
    expect(asked.backend).toBe('webgpu');
    const { backend, notice } = await chooseGpu(nobodySays, withCuda(tooOld, hardware));
    expect(backend).toBe('webgpu');
    expect(notice).toBe('serving on the GPU Some GPU; CUDA is not used: the NVIDIA driver is too old');
  });

  it('that neither can use leaves the processor to serve, with a word', async () => {
    const expected = {
      backend: undefined,
      notice: 'no GPU serves, the processor does; CUDA is not used: the NVIDIA driver is too old',
    };
    expect(await chooseGpu(nobodySays, withCuda(tooOld, missing))).toEqual(expected);
    expect(await chooseGpu(nobodySays, withCuda(tooOld, software))).toEqual(expected);
  });

  it('that was asked for with CUDA is no other’s to serve', async () => {
    const choice = await chooseGpu({ ...nobodySays, backend: 'cuda' }, withCuda(tooOld, hardware));
    expect(choice).toEqual({
      backend: undefined,
      notice: 'no GPU serves, the processor does: the NVIDIA driver is too old',
    });
  });
});
