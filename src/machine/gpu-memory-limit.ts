// How much of the machine's memory macOS lets its GPU have: what Metal calls the recommended working set. Nothing that
// runs in Node can ask Metal itself, but the system's own setting can be read, and its default is known.

import { spawnSync } from 'node:child_process';
import { totalmem } from 'node:os';

const MEGABYTE = 2 ** 20;
/** By default two thirds, and three quarters on machines with more than 36 GB. */
const LARGE_BYTES = 36 * 2 ** 30;

/** What the system says, replaceable in tests. */
interface MacFacts {
  readonly platform: NodeJS.Platform;
  readonly memoryBytes: number;
  /** The value of a setting of the system; undefined where it has none. */
  setting(name: string): string | undefined;
}

/** Undefined on other systems. */
export function gpuMemoryLimit(facts: MacFacts = systemFacts): number | undefined {
  const { platform, memoryBytes } = facts;
  if (platform !== 'darwin') return undefined;
  // 0 where nobody has changed it.
  const megabytes = Number(facts.setting('iogpu.wired_limit_mb') ?? 0);
  if (megabytes > 0) return Math.min(megabytes * MEGABYTE, memoryBytes);
  return Math.floor(memoryBytes * (memoryBytes > LARGE_BYTES ? 3 / 4 : 2 / 3));
}

const systemFacts: MacFacts = {
  platform: process.platform,
  memoryBytes: totalmem(),
  setting: (name) => {
    const { status, stdout } = spawnSync('sysctl', ['-n', name], { encoding: 'utf8', timeout: 2000 });
    return status === 0 ? stdout.trim() : undefined;
  },
};
