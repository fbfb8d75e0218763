import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // Real models run in many of them, on machines of any speed.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Tests wait for processes and timers as much as they compute: on two cores two files at a time take half as long.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    reporters: ['default', './test/support/count-reporter.ts'],
  },
});
