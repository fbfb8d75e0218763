// Closes a test run with one plain line: how many tests passed, failed and were skipped.

import type { SerializedError } from 'vitest';
import type { Reporter, TestModule } from 'vitest/node';

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
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
