// Runs the tests that use the C++ addon against one built with AddressSanitizer and UndefinedBehaviorSanitizer.
// Usage: node scripts/sanitize.js [vitest filters …]; without filters, every test of the compute room.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative, findCompiler } from './build-native.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiler = findCompiler();
if (!compiler || process.platform !== 'linux') {
  process.stderr.write('the sanitizers need Linux and a C++ compiler\n');
  process.exit(1);
}
mkdirSync(join(root, 'build'), { recursive: true });
const output = join(root, 'build', 'chairlift-sanitized.node');
const flags = [
  '-fsanitize=address,undefined',
  // The address sanitizer covers these; on unrolled kernels they take minutes to compile.
  '-fno-sanitize=null,alignment,pointer-overflow,object-size',
  '-fno-sanitize-recover=undefined',
  '-fno-omit-frame-pointer',
  '-g',
  '-O1',
];
await new Progress('chairlift sanitize').during('compiling C++', (pieces) =>
  buildNative({ compiler, output, extraFlags: flags, progress: pieces }),
);

// Node is not instrumented, so the runtime must be preloaded.
const runtime = (name) => execFileSync(compiler, [`-print-file-name=${name}`], { encoding: 'utf8' }).trim();
const filters = process.argv.slice(2);
const { status } = spawnSync(
  process.execPath,
  [
    join(root, 'node_modules', 'vitest', 'vitest.mjs'),
    'run',
    // Instrumented code is many times slower.
    '--testTimeout=600000',
    ...(filters.length > 0 ? filters : ['src/compute', 'test/golden/cpu', 'test/contract/cpu']),
  ],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      CHAIRLIFT_TEST_ADDON: output,
      LD_PRELOAD: [runtime('libasan.so'), runtime('libubsan.so')].join(' '),
      // V8 keeps memory for good, which the leak checker would report.
      ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
      UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1',
    },
  },
);
process.exit(status ?? 1);
