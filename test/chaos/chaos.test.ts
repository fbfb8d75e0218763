// A short run with a fixed seed: two lives of the server with a stop in good order between them; `npm run chaos` has as many more as wanted.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 10 * 60_000;

interface Report {
  readonly requests: { readonly total: number; readonly answer: number; readonly broken?: number };
  readonly violations: readonly unknown[];
}

function chaos(...flags: string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    const options = { cwd: root, timeout: LIMIT_MS - 10_000, maxBuffer: 2 ** 26 };
    const child = execFile(process.execPath, ['scripts/chaos.js', ...flags], options, (_, output) => {
      resolve({ code: child.exitCode ?? -1, output });
    });
  });
}

describe.skipIf(!hasAddon)('a server under chaos (with the addon)', () => {
  it('answers everyone rightly or says why not, and leaves nothing behind', {
    timeout: LIMIT_MS,
    // A violation is one, however rare.
    retry: 0,
  }, async () => {
    const { code, output } = await chaos('--minutes', '0.3', '--seed', '5');
    const report = JSON.parse(output) as Report;
    expect(report.violations).toEqual([]);
    // Nobody is there for a while between the lives.
    const { total, answer, broken = 0 } = report.requests;
    expect(answer).toBeGreaterThan((total - broken) / 3);
    expect(code).toBe(0);
  });
});
