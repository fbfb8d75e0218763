// Asks a process of its own what GPU there is: the server itself never loads a driver.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { GpuInfo } from './gpu.ts';

export type ProbeResult =
  /** Memory is undefined where it is the machine's own. */
  | { readonly found: true; readonly info: GpuInfo; readonly memoryBytes: number | undefined }
  | { readonly found: false; readonly reason: string };

const entry = fileURLToPath(new URL('../../../dist/compute/webgpu/probe-process.js', import.meta.url));

const LIMIT_MS = 60_000;

export function probeGpu(name?: string): Promise<ProbeResult> {
  return new Promise((resolve) => {
    const child = fork(entry, name === undefined ? [] : [name], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const settle = (result: ProbeResult) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      resolve(result);
    };
    const timer = setTimeout(
      () => settle({ found: false, reason: `the GPU did not answer within ${LIMIT_MS / 1000} s` }),
      LIMIT_MS,
    );
    child.once('message', (result) => settle(result as ProbeResult));
    child.once('error', ({ message }) =>
      settle({ found: false, reason: `it could not be asked for: ${message}` }),
    );
    child.once('exit', (code, signal) =>
      settle({ found: false, reason: `its driver ended the process that asked for it (${signal ?? code})` }),
    );
  });
}
