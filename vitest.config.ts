import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // Real models run in many of them, on machines of any speed.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ['default', './test/support/count-reporter.ts'],
  },
});
