// What this process may take: memory and cores of the machine, or of the container it runs in. A container is a
// control group (version 2 or 1), bounded by its own limit and by those of all groups around it.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { posix } from 'node:path';

export interface MachineLimits {
  readonly memoryBytes: number;
  /** Whole cores; a quota of one and a half counts as two. */
  readonly cores: number;
}

/** Replaceable in tests. */
interface MachineFacts {
  readonly memoryBytes: number;
  /** Cores that the process may be put on: cpu sets are in it, quotas are not. */
  readonly cores: number;
  read(path: string): string | undefined;
}

const GROUPS = '/sys/fs/cgroup';

export function machineLimits(facts: MachineFacts = systemFacts()): MachineLimits {
  const groups = parseGroups(facts.read('/proc/self/cgroup') ?? '');
  const memory = groups.flatMap((group) => memoryLimits(group, facts));
  const quotas = groups.flatMap((group) => coreQuotas(group, facts));
  return {
    memoryBytes: Math.min(facts.memoryBytes, ...memory),
    cores: Math.max(1, Math.min(facts.cores, ...quotas.map(Math.ceil))),
  };
}

interface Group {
  readonly version: 1 | 2;
  /** Of version 1: what this hierarchy governs. */
  readonly controllers: readonly string[];
  readonly path: string;
}

/** Lines such as `0::/system.slice/chairlift` and `4:cpu,cpuacct:/docker/…`. */
function parseGroups(text: string): Group[] {
  return text.split('\n').flatMap((line): Group[] => {
    const [, hierarchy, controllers, path] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? [];
    if (hierarchy === undefined || controllers === undefined || path === undefined) return [];
    if (controllers === '') return [{ version: 2, controllers: [], path }];
    return [{ version: 1, controllers: controllers.split(','), path }];
  });
}

function memoryLimits(group: Group, { read }: MachineFacts): number[] {
  if (group.version === 2) {
    // Above `memory.high` nothing is killed, but everything crawls.
    return foldersOf(GROUPS, group.path).flatMap((folder) =>
      ['memory.max', 'memory.high'].flatMap((file) => numbersIn(read(`${folder}/${file}`)).slice(0, 1)),
    );
  }
  if (!group.controllers.includes('memory')) return [];
  return foldersOf(`${GROUPS}/memory`, group.path).flatMap((folder) =>
    numbersIn(read(`${folder}/memory.limit_in_bytes`)),
  );
}

function coreQuotas(group: Group, { read }: MachineFacts): number[] {
  if (group.version === 2) {
    return foldersOf(GROUPS, group.path).flatMap((folder) => {
      const [quota, period] = numbersIn(read(`${folder}/cpu.max`));
      return quota === undefined || period === undefined ? [] : [quota / period];
    });
  }
  if (!group.controllers.includes('cpu')) return [];
  return foldersOf(`${GROUPS}/cpu`, group.path).flatMap((folder) => {
    const [quota] = numbersIn(read(`${folder}/cpu.cfs_quota_us`));
    const [period] = numbersIn(read(`${folder}/cpu.cfs_period_us`));
    return quota === undefined || period === undefined ? [] : [quota / period];
  });
}

/** The group's folder and those around it. Seen from inside a container, the innermost ones may not be there. */
function foldersOf(root: string, path: string): string[] {
  const folders = [root];
  for (let at = posix.normalize(path); at !== '/' && at !== '.'; at = posix.dirname(at)) {
    folders.push(posix.join(root, at));
  }
  return folders;
}

/** Numbers above 0 up to the first word that is none: `max` and `-1` stand for no limit. */
function numbersIn(text: string | undefined): number[] {
  const numbers = (text?.trim().split(/\s+/) ?? []).map(Number);
  const end = numbers.findIndex((number) => !(number > 0));
  return end < 0 ? numbers : numbers.slice(0, end);
}

function systemFacts(): MachineFacts {
  const read = (path: string) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined;
    }
  };
  return { memoryBytes: totalmem(), cores: availableParallelism(), read };
}

const MEGABYTE = 2 ** 20;
/** Machines with more than this give three quarters, others two thirds. */
const LARGE_BYTES = 36 * 2 ** 30;

interface MacFacts {
  readonly platform: NodeJS.Platform;
  readonly memoryBytes: number;
  setting(name: string): string | undefined;
}

/**
 * How much memory macOS lets its GPU have: Metal's recommended working set. Node cannot ask Metal, but the system's
 * setting can be read, and its default is known. Undefined on other systems.
 */
export function gpuMemoryLimit(facts: MacFacts = macFacts): number | undefined {
  const { platform, memoryBytes } = facts;
  if (platform !== 'darwin') return undefined;
  // 0 is the default.
  const megabytes = Number(facts.setting('iogpu.wired_limit_mb') ?? 0);
  if (megabytes > 0) return Math.min(megabytes * MEGABYTE, memoryBytes);
  return Math.floor(memoryBytes * (memoryBytes > LARGE_BYTES ? 3 / 4 : 2 / 3));
}

const macFacts: MacFacts = {
  platform: process.platform,
  memoryBytes: totalmem(),
  setting: (name) => {
    const { status, stdout } = spawnSync('sysctl', ['-n', name], { encoding: 'utf8', timeout: 2000 });
    return status === 0 ? stdout.trim() : undefined;
  },
};

/** Whether the C library is musl, as on Alpine: the addon is compiled for one or the other. */
export function runsOnMusl(maps = '/proc/self/maps'): boolean {
  return existsSync(maps) && readFileSync(maps, 'latin1').includes('/ld-musl-');
}
