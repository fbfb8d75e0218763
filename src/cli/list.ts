// `chairlift list`: the models on this machine, with what keeps a broken one from being served.

import type { Command } from 'commander';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import { formatColumns } from './columns.ts';
import { addFolderOptions, type FolderFlags, modelFolder, modelsOnDisk } from './models-on-disk.ts';
import { formatBytes } from './table.ts';

interface ListOptions extends FolderFlags {
  readonly json?: true;
}

export function addList(program: Command): void {
  const command = program.command('list').description('show the models on this machine');
  addFolderOptions(command)
    .option('--json', 'print JSON')
    .action((options: ListOptions) => {
      const models = modelsOnDisk(options);
      const text = options.json ? JSON.stringify(models) : layOut(models, modelFolder(options));
      process.stdout.write(`${text}\n`);
    });
}

export function layOut(models: readonly ModelOnDisk[], folder: string): string {
  const rows = models.map(({ name, format, sizeBytes, createdSeconds, path, problem }) => [
    name,
    problem === undefined ? format : 'broken',
    formatBytes(sizeBytes),
    new Date(createdSeconds * 1000).toISOString().slice(0, 10),
    path,
  ]);
  const problems = models.flatMap(({ name, problem }) =>
    problem === undefined ? [] : [`${name}: ${problem}`],
  );
  const hint = `Models lie in ${folder}. 'chairlift pull owner/repo' brings another.`;
  return [
    formatColumns(['name', 'format', 'size', 'changed', 'path'], rows),
    ...(problems.length > 0 ? ['', ...problems] : []),
    '',
    hint,
  ].join('\n');
}
