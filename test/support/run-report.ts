// Closes a test run: seconds by file in build/test-times.json and the slowest of them in words, then one plain line with
// how many tests passed, failed and were skipped.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SerializedError } from 'vitest';
import type { Reporter, TestModule } from 'vitest/node';

const root = fileURLToPath(new URL('../../', import.meta.url));
const file = new URL('../../build/test-times.json', import.meta.url);
const SLOWEST = 10;

/** Seconds of the last run of each file, by project and path. */
export type TestTimes = Readonly<Record<string, number>>;

export function timeKey(project: string, moduleId: string): string {
  return `${project} ${relative(root, moduleId)}`;
}

/** Empty where no run has ended here. */
export function readTestTimes(): TestTimes {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as TestTimes;
  } catch {
    return {};
  }
}

export default class RunReport implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    reportTimes(modules);
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      const failedBefore = counts.failed;
      for (const test of module.children.allTests()) counts[test.result().state]++;
      // A file that breaks before its tests are known has none to count.
      if (module.state() === 'failed' && counts.failed === failedBefore) counts.failed++;
    }
    // What went wrong outside of any test, such as a process that died.
    counts.failed += errors.length;
    process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
  }
}

function reportTimes(modules: readonly TestModule[]): void {
  const times = modules.map((module) => {
    const { collectDuration, duration } = module.diagnostic();
    const seconds = Math.round((collectDuration + duration) / 100) / 10;
    return [timeKey(module.project.name, module.moduleId), seconds] as const;
  });
  times.sort(([, one], [, other]) => other - one);
  // Files that were not run this time keep the time they had.
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, JSON.stringify({ ...readTestTimes(), ...Object.fromEntries(times) }, null, 1));
  if (times.length <= SLOWEST) return;
  const slowest = times
    .slice(0, SLOWEST)
    .map(([name, seconds]) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
  process.stdout.write(
    `\nThe slowest of ${times.length} files (all in build/test-times.json):\n${slowest.join('\n')}\n`,
  );
}
