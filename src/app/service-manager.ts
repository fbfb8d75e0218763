// Tells systemd how far the server is (Type=notify), and that it still lives (WatchdogSec). Node cannot send to such a socket,
// so systemd's own program does; each message is a process of a few milliseconds.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { processInputs, takeVariables } from '../config.ts';

const LIMIT_MS = 5000;

export interface ServiceManager {
  ready(status: string): Promise<void>;
  stopping(): Promise<void>;
}

const nobody: ServiceManager = { ready: async () => {}, stopping: async () => {} };

export function serviceManagerOf(logger: Logger): ServiceManager {
  const taken = takeVariables(['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']);
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: watchdog, WATCHDOG_PID: watched } = taken;
  if (socket === undefined) return nobody;
  const path = processInputs({}).environment.PATH;
  let isSilent = false;
  const tell = async (...words: readonly string[]) => {
    if (isSilent) return;
    const options = { timeout: LIMIT_MS, env: { PATH: path, NOTIFY_SOCKET: socket } };
    try {
      await promisify(execFile)('systemd-notify', [`--pid=${process.pid}`, ...words], options);
    } catch (error) {
      isSilent = true;
      logger.warn(
        { err: error },
        'systemd cannot be told of this server: use Type=exec, or install systemd-notify',
      );
    }
  };
  const everyMs = watched === undefined || Number(watched) === process.pid ? Number(watchdog ?? 0) / 2000 : 0;
  let timer: NodeJS.Timeout | undefined;
  return {
    async ready(status) {
      await tell('--ready', `--status=${status}`);
      // Where the event loop stands still, nothing is told, and systemd begins anew.
      if (everyMs > 0) timer = setInterval(() => void tell('WATCHDOG=1'), everyMs).unref();
    },
    async stopping() {
      await tell('--status=lets running answers end', 'STOPPING=1');
      // The time of a stop is TimeoutStopSec's affair; the watchdog still counts.
      timer?.unref();
    },
  };
}
