// How fast a GPU reads its memory, measured with a kernel that does nothing else: what bounds a step that must read every
// weight once.

import { openGpu } from './gpu.ts';
import { GpuMemory } from './memory.ts';
import { Programs } from './programs.ts';

const TRIALS = 4;
const READS = 8;

/** Bytes per second. */
export async function gpuReadBandwidth(name?: string): Promise<number> {
  const gpu = await openGpu(name);
  try {
    const bytes = Math.min(gpu.info.software ? 1 << 24 : 1 << 30, gpu.info.limits.bindingBytes & ~0xfffff);
    const memory = new GpuMemory(gpu.device);
    const [source, output] = [await memory.storage('source', bytes), await memory.storage('output', 16)];
    const programs = Programs.of(gpu.device);
    const text = readKernel(bytes);
    programs.add('read', text);
    await programs.ready();
    const group = programs.bind(text, [source, output]);
    const once = async (): Promise<number> => {
      const encoder = gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(programs.pipeline('read', text));
      pass.setBindGroup(0, group);
      for (let read = 0; read < READS; read++) pass.dispatchWorkgroups(WORKGROUPS);
      pass.end();
      const started = performance.now();
      gpu.device.queue.submit([encoder.finish()]);
      await gpu.device.queue.onSubmittedWorkDone();
      return (performance.now() - started) / 1000;
    };
    // The first trials wake the GPU.
    const trials: number[] = [];
    for (let trial = 0; trial < TRIALS; trial++) trials.push(await once());
    return (READS * bytes) / Math.min(...trials);
  } finally {
    gpu.close();
  }
}

const WORKGROUPS = 4096;

/** The result depends on every word, and is never written. */
function readKernel(bytes: number): string {
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  const stride = ${WORKGROUPS * 256}u;
  var sum = vec4<u32>(0u);
  for (var at = id.x; at < ${bytes / 16}u; at += 4u * stride) {
    sum ^= source[at] ^ source[at + stride] ^ source[at + 2u * stride] ^ source[at + 3u * stride];
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345u) { output[0] = sum.x; }
}`;
}
