// Files that take long come first: at the end, when few are left, nobody waits for one that began late.

import { BaseSequencer, type TestSpecification } from 'vitest/node';

const slow = [
  /\/test\/(gpu|chaos|fleet)\//,
  /\/test\/(property|fuzz|golden|engine|web)\//,
  /\/test\/end-to-end\//,
];

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rankOf = ({ moduleId }: TestSpecification) => {
      const rank = slow.findIndex((pattern) => pattern.test(moduleId));
      return rank < 0 ? slow.length : rank;
    };
    return sorted.sort((a, b) => rankOf(a) - rankOf(b));
  }
}
