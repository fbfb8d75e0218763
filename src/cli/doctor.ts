// `chairlift doctor`: whether this machine can serve, line by line, with what to do where something is amiss.
// Ends with 1 where something prevents serving.

import type { Command } from 'commander';
import { processInputs, resolveConfig } from '../config.ts';
import { defaultDatabasePath } from '../store/database.ts';
import {
  type Check,
  checkAddon,
  checkCompiler,
  checkDatabase,
  checkEmbeddedModel,
  checkGpu,
  checkMemory,
  checkModels,
  checkNode,
  checkPort,
} from './checks.ts';
import { addFolderOptions, type FolderFlags, modelFolder, modelsOnDisk } from './models-on-disk.ts';

interface DoctorOptions extends FolderFlags {
  readonly port?: string;
  readonly json?: true;
}

export function addDoctor(program: Command): void {
  const command = program.command('doctor').description('check whether this machine can serve');
  addFolderOptions(command)
    .option('--port <port>', 'the port to serve on; 8000 where unset')
    .option('--json', 'print JSON')
    .action(async (options: DoctorOptions) => {
      const checks = await examine(options);
      process.stdout.write(`${options.json ? JSON.stringify(checks) : layOut(checks)}\n`);
      if (checks.some(({ state }) => state === 'fail')) process.exitCode = 1;
    });
}

async function examine(options: DoctorOptions): Promise<Check[]> {
  const { config } = resolveConfig(processInputs({ ...options }));
  const models = modelsOnDisk(options);
  return [
    checkNode(process.versions.node),
    await checkCompiler(),
    checkAddon(),
    await checkGpu(),
    checkMemory(models),
    checkEmbeddedModel(),
    checkModels(models, modelFolder(options)),
    checkDatabase(config.database ?? defaultDatabasePath()),
    await checkPort(config.host, config.port),
  ];
}

function layOut(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const indent = ' '.repeat(width + 8);
  const lines = checks.flatMap(({ state, name, detail, remedies = [] }) => [
    `${state.padEnd(4)}  ${name.padEnd(width)}  ${detail}`,
    ...remedies.map((remedy) => `${indent}→ ${remedy}`),
  ]);
  const failures = checks.filter(({ state }) => state === 'fail').length;
  const verdict =
    failures === 0 ? 'This machine can serve.' : `This machine cannot serve: ${failures} to put right first.`;
  return [...lines, '', verdict].join('\n');
}
