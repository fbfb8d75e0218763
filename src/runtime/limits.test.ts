import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { gpuMemoryLimit, machineLimits, runsOnMusl } from './limits.ts';

const GB = 2 ** 30;

/** A machine of 64 GB and 16 cores with these files. */
const within = (files: Readonly<Record<string, string>>) =>
  machineLimits({ memoryBytes: 64 * GB, cores: 16, read: (path) => files[path] });

describe('what the process may take', () => {
  it('is the whole machine where no group limits it', () => {
    expect(within({})).toEqual({ memoryBytes: 64 * GB, cores: 16 });
    expect(
      within({
        '/proc/self/cgroup': '0::/user.slice/session.scope\n',
        '/sys/fs/cgroup/user.slice/session.scope/memory.max': 'max\n',
        '/sys/fs/cgroup/user.slice/session.scope/cpu.max': 'max 100000\n',
        '/sys/fs/cgroup/user.slice/memory.high': 'max\n',
      }),
    ).toEqual({ memoryBytes: 64 * GB, cores: 16 });
  });

  it('is what a container gets that sees itself as the root', () => {
    expect(
      within({
        '/proc/self/cgroup': '0::/\n',
        '/sys/fs/cgroup/memory.max': `${8 * GB}\n`,
        '/sys/fs/cgroup/cpu.max': '150000 100000\n',
      }),
    ).toEqual({ memoryBytes: 8 * GB, cores: 2 });
  });

  it('is the least of all groups around it', () => {
    expect(
      within({
        '/proc/self/cgroup': '0::/pods/one/server\n',
        '/sys/fs/cgroup/pods/one/server/memory.max': `${16 * GB}\n`,
        '/sys/fs/cgroup/pods/one/server/memory.high': `${12 * GB}\n`,
        '/sys/fs/cgroup/pods/one/memory.max': `${10 * GB}\n`,
        '/sys/fs/cgroup/pods/one/cpu.max': '400000 100000\n',
        '/sys/fs/cgroup/pods/cpu.max': '50000 100000\n',
      }),
    ).toEqual({ memoryBytes: 10 * GB, cores: 1 });
  });

  it('is found in groups of version 1 too, where the path may be that of the host', () => {
    expect(
      within({
        '/proc/self/cgroup': '11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n',
        '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${4 * GB}\n`,
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '300000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      }),
    ).toEqual({ memoryBytes: 4 * GB, cores: 3 });
    expect(
      within({
        '/proc/self/cgroup': '11:memory:/\n4:cpu:/\n',
        '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      }),
    ).toEqual({ memoryBytes: 64 * GB, cores: 16 });
  });

  it('is never more than this machine has', () => {
    const { memoryBytes, cores } = machineLimits();
    expect(memoryBytes).toBeGreaterThan(0);
    expect(memoryBytes).toBeLessThanOrEqual(totalmem());
    expect(cores).toBeGreaterThanOrEqual(1);
    expect(cores).toBeLessThanOrEqual(availableParallelism());
  });
});

const mac = (memoryBytes: number, setting: string | undefined) =>
  gpuMemoryLimit({ platform: 'darwin', memoryBytes, setting: () => setting });

describe('what a Mac lets its GPU have', () => {
  it('is two thirds of its memory, and three quarters of much', () => {
    expect(mac(24 * GB, '0')).toBe(16 * GB);
    expect(mac(64 * GB, undefined)).toBe(48 * GB);
  });

  it('is what its owner has set, and never more than there is', () => {
    expect(mac(24 * GB, '20480')).toBe(20 * GB);
    expect(mac(24 * GB, '65536')).toBe(24 * GB);
  });

  it('is not known elsewhere', () => {
    expect(gpuMemoryLimit({ platform: 'linux', memoryBytes: GB, setting: () => '1' })).toBeUndefined();
  });
});

it('tells musl by the loader that is in the process', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-maps-'));
  try {
    const maps = join(folder, 'maps');
    writeFileSync(maps, '7f00-7f01 r-xp 00000000 fd:00 42   /lib/ld-musl-aarch64.so.1\n');
    expect(runsOnMusl(maps)).toBe(true);
    writeFileSync(maps, '7f00-7f01 r-xp 00000000 fd:00 42   /lib/x86_64-linux-gnu/libc.so.6\n');
    expect(runsOnMusl(maps)).toBe(false);
    expect(runsOnMusl(join(folder, 'absent'))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
