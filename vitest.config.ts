import { availableParallelism } from 'node:os';
import { defaultServerConditions } from 'vite';
import { configDefaults, defineConfig } from 'vitest/config';
import { SlowFirst } from './test/support/slow-first.ts';
import { softwareGpus } from './test/support/software-gpus.ts';
import { thorough } from './test/support/thorough.ts';

const onGpus = 'test/gpu/**/*.test.ts';
const fastestGpu = softwareGpus.at(-1)?.name;

/** Replace modules, and so need a process of their own. */
const replacingModules = ['src/store/key-ring.test.ts', 'src/cli/bench-offline-failure.test.ts'];

/** Strike a whole server, a fleet, a simulated one or a page for minutes, or run every CUDA kernel on a simulated GPU: `npm run test:system`. */
const ofTheSystem = [
  'test/cuda/{adapters,attention,contract,images,products,recovery}.test.ts',
  'test/{chaos,clients,fleet,simulation,web}/**/*.test.ts',
  'test/end-to-end/{held-sockets,hostile-grammars,load,recovery,restarts,revoked-keys,shutdown,survival,twin,upstreams}.test.ts',
];

export default defineConfig({
  // Benchmarks import `#src/…`: here, what is in src and not what was built of it.
  ssr: { resolve: { conditions: ['chairlift-source', ...defaultServerConditions] } },
  test: {
    // Real models run in many of them, on machines of any speed.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // As long as `eventually` waits for what will come true.
    expect: { poll: { timeout: 60_000 } },
    setupFiles: ['test/support/close-opened.ts', 'test/support/equal-arrays.ts'],
    // A third of their time tests wait for processes and timers: three files at a time keep two cores busy.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    // Of what is compiled once, by its content: for the next project, and for the next run.
    experimental: { fsModuleCache: true, fsModuleCachePath: 'build/vitest-cache' },
    sequence: { sequencer: SlowFirst },
    reporters: ['default', './test/support/run-report.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{src,bench,web/src}/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...replacingModules],
          // Files share a process and the modules they import, which otherwise take as long as the tests.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, onGpus, ...ofTheSystem, ...replacingModules],
          isolate: false,
        },
      },
      { extends: true, test: { name: 'isolated', include: replacingModules } },
      {
        extends: true,
        // In CI a test of the system has a second try: a shared machine may stand still in the midst of one. It is reported.
        test: { name: 'system', include: ofTheSystem, retry: process.env.CI ? 1 : 0 },
      },
      {
        extends: true,
        test: {
          name: 'system-firefox',
          // Every test of the page runs in Chromium; what a first visit needs, or all of them, here as well.
          include: [`test/web/${thorough ? '*' : 'first-visit'}.test.ts`],
          env: { CHAIRLIFT_BROWSER: 'firefox' },
        },
      },
      ...softwareGpus.map((gpu) => ({
        extends: true as const,
        test: {
          name: gpu.name,
          include: [onGpus],
          env: gpu.environment,
          provide: { gpu, fastestGpu },
          // Files share a process, a device and its compiled kernels.
          isolate: false,
          setupFiles: ['test/support/patient-dawn.ts'],
        },
      })),
    ],
  },
});
