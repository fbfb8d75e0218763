// Servers that run on this machine: each writes a file in ~/.chairlift/servers, named after its port, with its process, its
// address and where its log goes. `stop` and `logs` read them.

import { execFileSync } from 'node:child_process';
import {
  fstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

export type LogPlace =
  | { readonly kind: 'file'; readonly path: string }
  /** Of systemd; `unit` where it is known. */
  | { readonly kind: 'journal'; readonly unit?: string }
  | { readonly kind: 'terminal' }
  /** Somebody else reads it: a container's runtime, a service manager, another program. */
  | { readonly kind: 'pipe' };

export interface ServerRecord {
  /** The machine: homes may be shared. */
  readonly host: string;
  readonly pid: number;
  readonly url: string;
  readonly startedMs: number;
  readonly log: LogPlace;
}

function recordsFolder(home: string): string {
  return join(home, '.chairlift', 'servers');
}

/** Gives what removes it again. A server serves also where it cannot be written. */
export function writeServerRecord(home: string, record: ServerRecord): () => void {
  const folder = recordsFolder(home);
  const path = join(folder, `${new URL(record.url).port || 'default'}.json`);
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, JSON.stringify(record), { mode: 0o600 });
  } catch {
    return () => {};
  }
  return () => {
    if (readRecord(path)?.pid === record.pid) rmSync(path, { force: true });
  };
}

/** Those whose process still is a server; files of others are removed. The latest first. */
export function runningServers(home: string): ServerRecord[] {
  const folder = recordsFolder(home);
  const found: ServerRecord[] = [];
  for (const name of namesIn(folder)) {
    const record = readRecord(join(folder, name));
    // Those of other machines are theirs.
    if (record !== undefined && record.host !== hostname()) continue;
    if (record !== undefined && isServer(record)) found.push(record);
    else remove(join(folder, name));
  }
  return found.toSorted((a, b) => b.startedMs - a.startedMs);
}

/** The number of a process that ended may have gone to another program, which began later than the record was written. */
export function isServer({ pid, startedMs }: Pick<ServerRecord, 'pid' | 'startedMs'>): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // One of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  const begunMs = begunMsOf(pid);
  if (begunMs !== undefined && begunMs > startedMs + CLOCK_MS) return false;
  const command = commandOf(pid);
  return command === undefined || (/chairlift/.test(command) && /\s(serve|server|start)\b/.test(command));
}

/** What clocks may differ by. */
const CLOCK_MS = 5000;

/** When a process began, by Linux: in hundredths of a second after the system did. Undefined where no one says. */
function begunMsOf(pid: number): number | undefined {
  const bootSeconds = /^btime (\d+)$/m.exec(textOf('/proc/stat') ?? '')?.[1];
  // The second field, a name, may hold anything but ends with the last parenthesis.
  const fields = (textOf(`/proc/${pid}/stat`) ?? '').replace(/^.*\)/s, '').trim().split(' ');
  const ticks = fields[19];
  return bootSeconds === undefined || ticks === undefined
    ? undefined
    : 1000 * Number(bootSeconds) + 10 * Number(ticks);
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Another user's: it is left alone.
  }
}

/** Undefined where the system does not say; empty for a process that has just ended. */
function commandOf(pid: number): string | undefined {
  const ofLinux = textOf(`/proc/${pid}/cmdline`);
  if (ofLinux !== '') return ofLinux.replaceAll('\0', ' ');
  try {
    return execFileSync('ps', ['-p', String(pid), '-o', 'args='], { encoding: 'utf8' });
  } catch (error) {
    const { code, status } = error as NodeJS.ErrnoException & { readonly status?: number };
    if (code === 'ENOENT') return undefined;
    // `ps` found no such process.
    if (status === 1) return '';
    throw error;
  }
}

function readRecord(path: string): ServerRecord | undefined {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as Partial<ServerRecord>;
    const isWhole =
      Number.isSafeInteger(record.pid) &&
      (record.pid as number) > 0 &&
      typeof record.startedMs === 'number' &&
      typeof record.url === 'string' &&
      record.log?.kind !== undefined;
    // Those of older versions do not name the machine.
    return isWhole ? { ...(record as ServerRecord), host: record.host ?? hostname() } : undefined;
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'));
  } catch {
    return [];
  }
}

/** Where this process's standard error goes. */
export function ownLogPlace(environment: Readonly<Record<string, string | undefined>>): LogPlace {
  const stat = fstatSync(2);
  if (environment.JOURNAL_STREAM === `${stat.dev}:${stat.ino}`) {
    const unit = /([^/\n]+\.service)\s*$/m.exec(textOf('/proc/self/cgroup'))?.[1];
    return { kind: 'journal', ...(unit === undefined ? {} : { unit }) };
  }
  if (process.stderr.isTTY) return { kind: 'terminal' };
  if (!stat.isFile()) return { kind: 'pipe' };
  try {
    return { kind: 'file', path: readlinkSync('/proc/self/fd/2') };
  } catch {
    // Not on every system can the name be found.
    return { kind: 'pipe' };
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
