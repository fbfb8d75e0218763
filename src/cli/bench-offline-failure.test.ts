// Replaces the measurement: only a broken engine could show this.

import { expect, it, vi } from 'vitest';
import { hasAddon } from '../../test/support/native.ts';
import { runCommand } from '../../test/support/run-command.ts';
import type { ComparisonReport } from '../bench/comparison/comparison-report.ts';
import { addBenchOffline } from './bench-offline.ts';

vi.mock('../bench/comparison/compare.ts', () => ({
  benchComparison: async (): Promise<Partial<ComparisonReport>> => ({
    benchmark: 'comparison',
    model: {
      name: 'broken.gguf',
      architecture: 'llama',
      weightBytes: 1,
      kvBytesPerToken: 1,
      kvType: 'f16',
      contextLength: 1,
      source: 'file',
      loadSeconds: 1,
    },
    machine: { cpu: '', cores: 1, memoryBytes: 1, kernels: 'scalar', threads: 1, node: '' },
    memory: { beforeLoadingBytes: 1, loadedBytes: 1 },
    results: [],
    mismatches: [{ promptTokens: 8, concurrency: 2, served: 'batched', request: 1 }],
  }),
}));

it.skipIf(!hasAddon)('answers that differ fail the command, with the report (needs the addon)', async () => {
  const { output, notes, exitCode } = await runCommand(addBenchOffline, ['offline']);
  expect(exitCode).toBe(1);
  expect(notes).toContain('FAILED: 1 answers differ');
  expect(JSON.parse(output).mismatches).toHaveLength(1);
});
