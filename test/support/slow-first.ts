// Files that take long come first: at the end, when few are left, none begins late. Where a run has ended before, its
// times decide; on a new checkout, where they lie.

import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { readTestTimes, timeKey } from './run-report.ts';

const slow = [
  /\/test\/(gpu|chaos|fleet)\//,
  /\/test\/(property|fuzz|golden|engine|web)\//,
  /\/test\/end-to-end\//,
];
const LONG_SECONDS = 60;

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const times = readTestTimes();
    const secondsOf = ({ project, moduleId }: TestSpecification) => {
      const rank = slow.findIndex((pattern) => pattern.test(moduleId));
      return times[timeKey(project.name, moduleId)] ?? (rank < 0 ? 0 : LONG_SECONDS / (rank + 1));
    };
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => secondsOf(other) - secondsOf(one));
  }
}
