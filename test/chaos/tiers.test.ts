// A short run with a fixed seed of what `npm run chaos -- tiers` does for as long as wanted.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 5 * 60_000;

interface Report {
  readonly requests: Readonly<Record<string, number>>;
  readonly blocks: Readonly<Record<string, number>>;
  readonly violations: readonly unknown[];
}

function chaosOfTiers(...flags: string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    const options = { cwd: root, timeout: LIMIT_MS - 10_000, maxBuffer: 2 ** 26 };
    const child = execFile(
      process.execPath,
      ['scripts/chaos.js', 'tiers', ...flags],
      options,
      (_, output) => {
        resolve({ code: child.exitCode ?? -1, output });
      },
    );
  });
}

describe.skipIf(!hasAddon)('two servers on a disturbed folder of KV blocks (with the addon)', () => {
  it('answer as one that nobody disturbs, and leave a folder that opens and holds whole blocks', {
    timeout: LIMIT_MS,
    // A violation is one, however rare.
    retry: 0,
  }, async () => {
    const { code, output } = await chaosOfTiers('--minutes', '0.35', '--seed', '1');
    const { violations, requests, blocks } = JSON.parse(output) as Report;
    expect(violations).toEqual([]);
    // How many, and whether any came up again, is a matter of the machine: test/engine/tiers.test.ts has that.
    expect(requests.answer).toBeGreaterThan(0);
    expect(blocks.written).toBeGreaterThan(0);
    expect(code).toBe(0);
  });
});
