// Files that take long come first: at the end, when few are left, none begins late. Where a run has ended before, its
// times decide; on a new checkout, where they lie. Files of a project that share a process come one after another: a
// worker takes the next file into the same process only where that one is next in the queue.

import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { readTestTimes, timeKey } from './run-report.ts';

const slow = [
  /\/test\/(gpu|chaos|fleet)\//,
  /\/test\/(property|fuzz|golden|engine|web|contract)\//,
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
    const sorted = (await super.sort(files)).sort((one, other) => secondsOf(other) - secondsOf(one));
    const sharing = new Map<string, TestSpecification[]>();
    for (const file of sorted) {
      const { config, name } = file.project;
      const key = config.isolate ? timeKey(name, file.moduleId) : name;
      sharing.set(key, [...(sharing.get(key) ?? []), file]);
    }
    return [...sharing.values()].flat();
  }
}
