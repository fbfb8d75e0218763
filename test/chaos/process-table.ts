// The processes of this machine as `ps` tells them: who is whose child, and how much memory each really holds.

import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly residentBytes: number;
  /** Ended, and not yet collected by its parent. */
  readonly defunct: boolean;
}

export async function processTable(): Promise<ProcessEntry[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,rss=,stat='], { maxBuffer: 2 ** 24 });
  return stdout
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [pid, parent, kilobytes, state = ''] = line.trim().split(/\s+/);
      return {
        pid: Number(pid),
        parent: Number(parent),
        residentBytes: 1024 * Number(kilobytes),
        defunct: state.startsWith('Z'),
      };
    });
}

/**
 * Without pages of files, where the system tells them apart: programs, libraries and models that were read are the system's to
 * drop and to read again, and it does so when it likes.
 */
export function heldBytes({ pid, residentBytes }: ProcessEntry): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const parts = [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)];
    if (parts.length > 0) return parts.reduce((sum, [, kilobytes]) => sum + 1024 * Number(kilobytes), 0);
  } catch {
    // No such folder here, or the process has just ended.
  }
  return residentBytes;
}

/** For how long a process's first thread could have gone on while other programs had the processor; 0 where nobody tells. */
export function heldUpMs(pid: number): number {
  try {
    const [, heldUp = 0] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ').map(Number);
    return heldUp / 1e6;
  } catch {
    return 0;
  }
}

/** Open files and connections; undefined where the system does not tell. */
export function descriptorsOf(pid: number): number | undefined {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return undefined;
  }
}

/** Those that live, oldest first. */
export async function childrenOf(parent: number): Promise<ProcessEntry[]> {
  const all = await processTable();
  return all.filter((entry) => entry.parent === parent && !entry.defunct).sort((a, b) => a.pid - b.pid);
}

/** False where there is no such process any more. */
export function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}
