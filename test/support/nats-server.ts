// A real `nats-server` with a configuration of a test's own, on a free port of this machine.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntil } from './server-process.ts';

/** Why none can be started here, if it cannot. */
export function natsRefusal(): string | undefined {
  return spawnSync('nats-server', ['--version']).error === undefined
    ? undefined
    : 'nats-server is not installed';
}

export interface NatsServer {
  readonly port: number;
  log(): string;
  /** Reads another configuration; connections that it does not allow any more end. */
  reload(...settings: readonly string[]): Promise<void>;
  /** It stays connected, and says nothing any more. */
  freeze(): void;
  stop(): Promise<void>;
}

let started = 0;

/** On 127.0.0.1, unless the settings name another address; `folder` is for its files. */
export async function startNats(folder: string, ...settings: readonly string[]): Promise<NatsServer> {
  const file = join(folder, `nats-${++started}.conf`);
  const write = (lines: readonly string[], port: number) =>
    writeFileSync(file, [`listen: "127.0.0.1:${port}"`, ...lines].join('\n'));
  write(settings, -1);
  const child = spawn('nats-server', ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const says = async (text: string, times = 1) =>
    waitUntil(() => {
      if (child.exitCode !== null) throw new Error(`nats-server ended with ${child.exitCode}:\n${log}`);
      return log.split(text).length > times;
    });
  await says('Server is ready');
  const port = Number(/Listening for client connections on \S+:(\d+)/.exec(log)?.[1]);
  let reloads = 0;
  return {
    port,
    log: () => log,
    reload: async (...lines) => {
      write(lines, port);
      child.kill('SIGHUP');
      await says('Reloaded server configuration', ++reloads);
    },
    freeze: () => void child.kill('SIGSTOP'),
    stop: () => end(child),
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}
