// `chairlift list`: the models on this machine, with what keeps a broken one from being served.

import type { Command } from 'commander';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import { formatBytes } from '../text/byte-size.ts';
import {
  addFolderOptions,
  type FolderFlags,
  modelFolder,
  modelsOfOthers,
  modelsOnDisk,
  type OtherModel,
} from './models-on-disk.ts';
import { formatColumns } from './terminal.ts';

interface ListOptions extends FolderFlags {
  readonly json?: true;
  readonly quiet?: true;
}

export function addList(program: Command): void {
  const command = program.command('list').description('show the models on this machine');
  addFolderOptions(command)
    .option('--json', 'print JSON')
    .option('-q, --quiet', 'print names alone')
    .action((options: ListOptions) => {
      const models = modelsOnDisk(options);
      const others = modelsOfOthers(options, models);
      if (options.quiet) {
        process.stdout.write([...models, ...others].map(({ name }) => `${name}\n`).join(''));
        return;
      }
      const text = options.json
        ? JSON.stringify([...models, ...others])
        : layOut(models, modelFolder(options), others);
      process.stdout.write(`${text}\n`);
    });
}

export function layOut(
  models: readonly ModelOnDisk[],
  folder: string,
  others: readonly OtherModel[] = [],
): string {
  const rowOf = (
    { name, format, sizeBytes, createdSeconds, path, sees }: ModelOnDisk,
    state: string | undefined,
  ) => [
    name,
    state ?? (sees ? `${format}, images` : format),
    formatBytes(sizeBytes),
    new Date(createdSeconds * 1000).toISOString().slice(0, 10),
    path,
  ];
  const rows = models.map((model) => rowOf(model, model.problem === undefined ? undefined : 'broken'));
  const problems = [...models, ...others.filter(({ incomplete }) => incomplete)].flatMap(
    ({ name, problem }) => (problem === undefined ? [] : [`${name}: ${problem}`]),
  );
  const hint = `Models lie in ${folder}. 'chairlift pull owner/repo' brings another.`;
  const columns = ['name', 'format', 'size', 'changed', 'path'];
  const ofOthers = [
    '',
    "Of other programs; 'chairlift serve --model name' serves one from where it lies:",
    formatColumns(
      columns,
      others.map((model) => rowOf(model, stateOf(model))),
    ),
  ];
  return [
    formatColumns(columns, rows),
    ...(others.length > 0 ? ofOthers : []),
    ...(problems.length > 0 ? ['', ...problems] : []),
    '',
    hint,
  ].join('\n');
}

/** A cache holds models of all kinds; `chairlift inspect` says why one is not served. */
function stateOf({ incomplete, problem }: OtherModel): string | undefined {
  if (incomplete) return 'incomplete';
  return problem === undefined ? undefined : 'unsupported';
}
