// A server's process as its user holds it: started plainly or in a terminal, told to end by a signal or by closing the
// terminal. Knows nothing of what it serves.

import { type ChildProcess, spawn } from 'node:child_process';
import { sendSignal } from './process-table.ts';

export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
}

export interface ServerProcess {
  readonly pid: number;
  readonly alive: boolean;
  readonly exited: Promise<ServerExit>;
  /** Undefined where there is no terminal. */
  readonly closeTerminal: (() => void) | undefined;
  signal(name: NodeJS.Signals): void;
  /** Each hears what is written from now on; in a terminal both streams are one, the first. */
  listen(output: (text: string) => void, errors: (text: string) => void): void;
}

export function startPlainly({ program, args, folder, environment }: Command): ServerProcess {
  const child = spawn(program, args, { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  return {
    pid: child.pid as number,
    get alive() {
      return lives(child);
    },
    exited: exitOf(child),
    closeTerminal: undefined,
    signal: (name) => void child.kill(name),
    listen(output, errors) {
      child.stdout.setEncoding('utf8').on('data', output);
      child.stderr.setEncoding('utf8').on('data', errors);
    },
  };
}

/** Its first line of output is the process id of the command, the rest what that writes. */
const terminalProgram = `
import os, pty, select, sys
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
os.write(1, b'%d\\n' % pid)
while True:
    ready, _, _ = select.select([master, 0], [], [])
    if 0 in ready:
        break
    try:
        os.write(1, os.read(master, 65536))
    except OSError:
        break
os.close(master)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
`;

/** Undefined where this machine has no Python to make a terminal with. */
export async function startInTerminal(command: Command): Promise<ServerProcess | undefined> {
  const { program, args, folder, environment } = command;
  const child = spawn('python3', ['-c', terminalProgram, program, ...args], {
    cwd: folder,
    env: environment,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = exitOf(child);
  child.stdin.on('error', () => {});
  const first = await new Promise<string | undefined>((resolve) => {
    child.once('error', () => resolve(undefined));
    child.once('exit', () => resolve(undefined));
    child.stdout.setEncoding('utf8').once('data', resolve);
  });
  if (first === undefined) return undefined;
  const pid = Number.parseInt(first, 10);
  // What came together with the process id belongs to the output.
  let early = first.slice(first.indexOf('\n') + 1);
  const keep = (text: string) => {
    early += text;
  };
  child.stdout.on('data', keep);
  return {
    pid,
    get alive() {
      return lives(child);
    },
    exited,
    closeTerminal: () => void child.stdin.end(),
    signal: (name) => void sendSignal(pid, name),
    listen(output) {
      child.stdout.off('data', keep);
      const take = (text: string) => output(text.replaceAll('\r\n', '\n'));
      take(early);
      child.stdout.on('data', take);
    },
  };
}

function lives({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

function exitOf(child: ChildProcess): Promise<ServerExit> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
    child.once('error', () => resolve({ code: -1, signal: null }));
  });
}
