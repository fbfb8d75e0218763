// Which database a command opens: the one it is told, or that of a server started here.

import type { Command } from 'commander';
import { processInputs, resolveConfig } from '../config.ts';
import { defaultDatabasePath } from '../store/database.ts';

export function addDatabaseOption(command: Command): Command {
  return command
    .option(
      '--database <path>',
      "the database: a file, or an address as postgres://…; the server's where unset",
    )
    .hook('preAction', () => {
      if (command.opts().database === undefined) command.setOptionValue('database', ofServer());
    });
}

function ofServer(): string {
  return resolveConfig(processInputs({})).config.database ?? defaultDatabasePath();
}
