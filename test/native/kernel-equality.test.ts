import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/kernel-equality.js', import.meta.url));

// Random shapes, scales and values beyond what model files hold, infinities included; compiled first, hence the time.
it('gives the same bits with every instruction set of this machine', { timeout: 900_000 }, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [script]);
  expect(stdout).toMatch(/^this machine: scalar.*: \d+ comparisons$/m);
});
