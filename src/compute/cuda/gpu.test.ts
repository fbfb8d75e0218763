import { describe, expect, it } from 'vitest';
import { findCudaGpu } from './gpu.ts';

const gpus = () => [
  { name: 'NVIDIA GeForce GTX 1080', capability: 61, bytes: 8e9 },
  { name: 'NVIDIA H200', capability: 90, bytes: 140e9 },
  { name: 'NVIDIA GeForce RTX 4090', capability: 89, bytes: 24e9 },
];

describe('the GPU that serves with CUDA', () => {
  it('is the first that the kernels run on', () => {
    expect(findCudaGpu({ gpus })).toEqual({
      number: 1,
      name: 'NVIDIA H200',
      capability: 90,
      totalBytes: 140e9,
    });
  });

  it('is found by its number or by a part of its name', () => {
    expect(findCudaGpu({ gpus }, '2').name).toContain('4090');
    expect(findCudaGpu({ gpus }, 'rtx').number).toBe(2);
    expect(findCudaGpu({ gpus }, '4090').number).toBe(2);
  });

  it('is missing with a reason where it is unknown, too old, or none', () => {
    expect(() => findCudaGpu({ gpus }, 'radeon')).toThrow(
      'no NVIDIA GPU is named radeon; there are 0: NVIDIA GeForce',
    );
    expect(() => findCudaGpu({ gpus }, 'GTX')).toThrow('has compute capability 6.1; the kernels need 7.5');
    expect(() => findCudaGpu({ gpus: () => [] })).toThrow('the NVIDIA driver finds no GPU');
    const noDriver = () => {
      throw new Error('there is no NVIDIA driver');
    };
    expect(() => findCudaGpu({ gpus: noDriver })).toThrow('there is no NVIDIA driver');
  });
});
