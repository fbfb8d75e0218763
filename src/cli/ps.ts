// `chairlift ps`: the models that a running server has loaded.

import type { Command } from 'commander';
import type { ModelEntry } from '../pool/model-pool.ts';
import { formatBytes } from '../text/byte-size.ts';
import { addServerOptions, callServer, refusalOf, type ServerFlags } from './server-client.ts';
import { formatColumns } from './terminal.ts';

interface PsOptions extends ServerFlags {
  readonly all?: true;
  readonly json?: true;
}

/** Without an admin key, only name and state are known. */
type KnownModel = Pick<ModelEntry, 'name' | 'state'> & Partial<ModelEntry>;

export function addPs(program: Command): void {
  const command = program.command('ps').description('show the models that a running server has loaded');
  addServerOptions(command)
    .option('--all', 'show those that are not loaded, too')
    .option('--json', 'print JSON')
    .action(ps);
}

async function ps(options: PsOptions): Promise<void> {
  const models = (await modelsOf(options)).filter(({ state }) => options.all || state !== 'unloaded');
  if (options.json) process.stdout.write(`${JSON.stringify(models)}\n`);
  else if (models.length === 0) process.stdout.write(`No model is loaded at ${options.url}.\n`);
  else process.stdout.write(`${layOut(models)}\n`);
}

async function modelsOf(flags: ServerFlags): Promise<KnownModel[]> {
  const full = await callServer(flags, '/admin/models');
  if (full.ok) return ((await full.json()) as { data: ModelEntry[] }).data;
  if (full.status !== 401 && full.status !== 403) throw await refusalOf(full);
  await full.body?.cancel();
  const open = await callServer(flags, '/v1/models');
  if (!open.ok) throw await refusalOf(open);
  const { data } = (await open.json()) as { data: { id: string; state: ModelEntry['state'] }[] };
  process.stderr.write('memory and requests are shown with an admin key alone\n');
  return data.map(({ id, state }) => ({ name: id, state }));
}

function layOut(models: readonly KnownModel[]): string {
  return formatColumns(
    ['name', 'state', 'memory', 'computed by', 'requests', 'pinned', 'path'],
    models.map(({ name, state, memoryBytes, computedBy, upstream, busy, pinned, path }) => [
      name,
      upstream === undefined ? state : 'elsewhere',
      memoryBytes === undefined ? undefined : formatBytes(memoryBytes),
      upstream === undefined ? computedBy : `upstream ${upstream}`,
      busy,
      pinned === undefined ? undefined : pinned ? 'yes' : 'no',
      path,
    ]),
  );
}
