import { describe, expect, it } from 'vitest';
import { tinyModel } from '../../../test/support/tiny-model.ts';
import { describeForward, scratchBytes } from './forward.ts';
import type { GpuMemory } from './memory.ts';
import { ScratchPlan } from './scratch.ts';

const BINDING_BYTES = 2 ** 27;
const { spec } = tinyModel();

/** Allocates nothing, and sums up sizes. */
function countingMemory() {
  const sizes = new Map<string, number>();
  const allocate = async (label: string, size: number) => {
    expect(sizes.has(label)).toBe(false);
    sizes.set(label, size);
    return { label, size } as GPUBuffer;
  };
  return { sizes, memory: { storage: allocate, readback: allocate } as unknown as GpuMemory };
}

describe('scratch buffers', () => {
  it('are shared by requests of one name, and as large as the largest', async () => {
    const plan = new ScratchPlan(spec, BINDING_BYTES);
    const [first, second] = [plan.request('queries', { width: 3 }), plan.request('queries', { width: 7 })];
    const { sizes, memory } = countingMemory();
    const { rows } = await plan.allocate(memory);
    expect(first).toBe(second);
    expect(sizes.get('queries')).toBe(4 * 7 * rows);
  });

  it('leave no more rows than all of them can be bound with', async () => {
    const plan = new ScratchPlan(spec, BINDING_BYTES);
    plan.request('wide', { width: BINDING_BYTES / 4 / 100 });
    expect((await plan.allocate(countingMemory().memory)).rows).toBe(100);
  });

  it('refuse an encoder only where a text of its context does not fit', async () => {
    const encoder = { ...tinyModel({ bidirectional: true }).spec, contextLength: 80 };
    const allocate = (rows: number) => {
      const plan = new ScratchPlan(encoder, BINDING_BYTES);
      plan.request('wide', { width: BINDING_BYTES / 4 / rows });
      return plan.allocate(countingMemory().memory);
    };
    expect((await allocate(100)).rows).toBe(100);
    await expect(allocate(79)).rejects.toThrow(/texts of 80 tokens at once .* a context of at most 79/);
  });

  it('take what is estimated without a device', async () => {
    const limits = {
      bindingBytes: BINDING_BYTES,
      bufferBytes: 2 ** 40,
      workgroupBytes: 2 ** 15,
      workgroupThreads: 256,
    };
    const { sizes, memory } = countingMemory();
    await describeForward(spec, 'f16', limits).builder.scratchPlan.allocate(memory);
    const allocated = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    expect(scratchBytes(spec, 'f16', BINDING_BYTES)).toBe(allocated);
  });
});
