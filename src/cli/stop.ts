// `chairlift stop [MODEL]`: ends the server on this machine, or unloads a model of a running server.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { processInputs } from '../config.ts';
import { addServerOptions, callServer, refusalOf, type ServerFlags } from './server-client.ts';
import { isServer, runningServers, type ServerRecord } from './server-records.ts';
import { UsageError } from './usage-error.ts';

const POLL_MS = 50;

export function addStop(program: Command): void {
  const command = program
    .command('stop')
    .description('stop the server on this machine, or unload a model of a running server')
    .argument('[model]', 'a model of the server; without one the server itself is stopped')
    .option('--now', 'end running requests at once, instead of letting them end');
  addServerOptions(command).action(
    async (model: string | undefined, options: ServerFlags & { now?: true }, self: Command) => {
      if (model !== undefined) return unload(model, options);
      const url = self.getOptionValueSource('url') === 'cli' ? options.url : undefined;
      await stopServer(chosenServer(url), options.now === true);
    },
  );
}

async function unload(model: string, flags: ServerFlags): Promise<void> {
  const response = await callServer(flags, '/admin/models/unload', { body: { model } });
  if (!response.ok) throw await refusalOf(response);
  const { name } = (await response.json()) as { name: string };
  process.stdout.write(`${name} is unloaded\n`);
}

/** The only one, or that of an address. */
export function chosenServer(url: string | undefined): ServerRecord {
  const servers = runningServers(processInputs({}).home);
  const matching = url === undefined ? servers : servers.filter((one) => one.url === url.replace(/\/+$/, ''));
  const [server] = matching;
  if (server === undefined) {
    const where = url === undefined ? '' : ` at ${url}`;
    throw new UsageError(`no server of this user runs on this machine${where}`);
  }
  if (matching.length === 1) return server;
  const urls = matching.map((one) => one.url).join(', ');
  throw new UsageError(`several servers run on this machine; choose one with --url: ${urls}`);
}

async function stopServer(server: ServerRecord, now: boolean): Promise<void> {
  const { pid, url } = server;
  process.kill(pid, 'SIGTERM');
  process.stderr.write(`stopping the server at ${url} (process ${pid}); running requests may end\n`);
  if (now) {
    await sleep(POLL_MS);
    if (isServer(server)) process.kill(pid, 'SIGTERM');
  }
  while (isServer(server)) await sleep(POLL_MS);
  process.stdout.write(`the server at ${url} has stopped\n`);
}
