// Closes a test run: seconds by file in build/test-times.json and the slowest of them in words, a line for each test that
// failed or passed at its second try only, then one plain line with how many passed, failed and were skipped.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SerializedError } from 'vitest';
import type { Reporter, TestModule } from 'vitest/node';

const root = fileURLToPath(new URL('../../', import.meta.url));
const file = new URL('../../build/test-times.json', import.meta.url);
const SLOWEST = 10;
/** Of the line of a failed test. */
const MOST_CHARACTERS = 500;

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
      const name = timeKey(module.project.name, module.moduleId);
      const failedBefore = counts.failed;
      for (const test of module.children.allTests()) {
        const result = test.result();
        counts[result.state]++;
        const isFlaky = test.diagnostic()?.flaky === true;
        if (result.state === 'failed' || isFlaky) {
          report(isFlaky ? 'FLAKY' : 'FAILED', `${name} > ${test.fullName}`, result.errors ?? []);
        }
      }
      // A file that breaks before its tests are known has none to count.
      if (module.state() === 'failed' && counts.failed === failedBefore) {
        counts.failed++;
        report('FAILED', name, module.errors());
      }
    }
    // What went wrong outside of any test, such as a process that died.
    counts.failed += errors.length;
    if (errors.length > 0) report('FAILED', 'outside of any test', errors);
    process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
  }
}

/** In one line, so that the end of a long log still tells what went wrong. */
function report(
  how: 'FAILED' | 'FLAKY',
  name: string,
  errors: readonly { readonly message: string }[],
): void {
  const message = errors.map((error) => error.message).join('; ');
  const line = `${name}: ${message}`.replace(/\s+/g, ' ').slice(0, MOST_CHARACTERS);
  process.stdout.write(`${how} ${line}\n`);
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
