// Asks a process of its own about a GPU, so that a driver that crashes or hangs takes nothing with it: the server itself never
// loads one.

import { fork } from 'node:child_process';

export interface NotFound {
  readonly found: false;
  readonly reason: string;
}

const LIMIT_MS = 60_000;

/** `entry` is a module that sends one message; what prevents that is the reason why nothing was found. */
export function askProcess<Result>(entry: string, args: readonly string[]): Promise<Result | NotFound> {
  return new Promise((resolve) => {
    const child = fork(entry, args, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
    const settle = (result: Result | NotFound) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      resolve(result);
    };
    const notFound = (reason: string) => settle({ found: false, reason });
    const timer = setTimeout(() => notFound(`the GPU did not answer within ${LIMIT_MS / 1000} s`), LIMIT_MS);
    child.once('message', (result) => settle(result as Result));
    child.once('error', ({ message }) => notFound(`it could not be asked for: ${message}`));
    child.once('exit', (code, signal) =>
      notFound(`its driver ended the process that asked for it (${signal ?? code})`),
    );
  });
}
