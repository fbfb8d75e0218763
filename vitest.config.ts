import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { SlowFirst } from './test/support/slow-first.ts';
import { softwareGpus } from './test/support/software-gpus.ts';

const onGpus = 'test/gpu/**/*.test.ts';
const fastestGpu = softwareGpus.findLast(({ missing }) => missing === undefined)?.name;

export default defineConfig({
  test: {
    // Real models run in many of them, on machines of any speed.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Tests wait for processes and timers as much as they compute: on two cores two files at a time take half as long.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    sequence: { sequencer: SlowFirst },
    reporters: ['default', './test/support/count-reporter.ts'],
    projects: [
      {
        extends: true,
        test: { name: 'chairlift', include: ['{src,test,web/src}/**/*.test.ts'], exclude: [onGpus] },
      },
      ...softwareGpus.map((gpu) => ({
        extends: true as const,
        test: {
          name: gpu.name,
          include: [onGpus],
          env: gpu.environment,
          provide: { gpu, fastestGpu },
          setupFiles: ['test/support/patient-dawn.ts'],
        },
      })),
    ],
  },
});
