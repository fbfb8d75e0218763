// What both backends promise about memory of KV blocks: released, a block takes none; used again, it is as good as new.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BLOCKS, itKeepsBlocks, model, run, sequence } from '../../test/support/block-promises.ts';
import { addon, hasAddon } from '../../test/support/native.ts';
import { randomTokens, tinyModel } from '../../test/support/tiny-model.ts';
import type { CreateBackend, KvType } from './backend.ts';
import { createCpuBackend } from './cpu/backend.ts';
import { sizesOf } from './memory.ts';
import { createReferenceBackend } from './reference/backend.ts';

const cpu =
  (kvType: KvType): CreateBackend =>
  (spec, weights, options) =>
    createCpuBackend(addon(), spec, weights, { ...options, kvType });

const backends: readonly { readonly name: string; readonly create: CreateBackend }[] = [
  { name: 'reference', create: createReferenceBackend },
  ...(hasAddon ? (['f16', 'q8'] as const).map((type) => ({ name: `cpu, ${type}`, create: cpu(type) })) : []),
];

describe.each(backends)('blocks of the $name backend', ({ create }) => itKeepsBlocks(create));

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it('releases nothing while a step runs', async () => {
    const backend = await cpu('f16')(model.spec, model.weights, { blockCount: BLOCKS });
    const running = run(backend, sequence([1, 2, 3]));
    expect(() => backend.releaseBlocks(Int32Array.of(4))).toThrow('a step is still running');
    await running;
    backend.close();
  });
});

const MEGABYTE = 2 ** 20;
const residentBytes = () => Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1]) * 4096;

describe.skipIf(!hasAddon || process.platform !== 'linux')(
  'memory of the cpu backend (skipped where the addon is not built or the system does not tell)',
  () => {
    it('is taken by blocks when they are first used, and really given back', async () => {
      const used = 64;
      const large = tinyModel({ layerCount: 8, headCount: 8, kvHeadCount: 8, headSize: 128 });
      const bytes = sizesOf('cpu').kvBlockBytes(large.spec, 'f16');
      expect(bytes).toBe(MEGABYTE);
      // 128 GB, but of addresses alone.
      const backend = await cpu('f16')(large.spec, large.weights, { blockCount: 1 << 17 });
      // Far apart and side by side.
      const blocks = Array.from({ length: used }, (_, index) => (index % 2 === 0 ? index : 100_000 + index));
      const fill = () =>
        run(
          backend,
          ...blocks.map((block) => sequence([block], { tokens: randomTokens(32, 131), wantLogits: 'none' })),
        );
      const release = () => backend.releaseBlocks(Int32Array.from(blocks));
      // Everything else that a step takes is there after the first.
      await fill();
      release();
      const before = residentBytes();
      await fill();
      const filled = residentBytes();
      release();
      const after = residentBytes();
      backend.close();
      const slack = 8 * MEGABYTE;
      expect(Math.abs(filled - before - used * bytes)).toBeLessThan(slack);
      expect(Math.abs(after - before)).toBeLessThan(slack);
    });
  },
);
