// The command line: one file per command, loaded where it is asked for; errors as one line.

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { ConfigError } from '../config.ts';
import { PullError } from '../pool/model-reference.ts';
import { StoreError } from '../store/database.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { loadCommands } from './commands.ts';
import { hintFor, withLongFlags } from './foreign-flags.ts';
import { UsageError } from './usage-error.ts';

const { version, description } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string; description: string };

const program = new Command('chairlift')
  .description(description)
  .version(version)
  .configureHelp({ showGlobalOptions: false })
  .configureOutput({ outputError: (text, write) => write(text + hintFor(text)) })
  .addHelpText(
    'after',
    `
Examples:
  chairlift run llama3.2:1b                      pull it if need be, then chat
  chairlift run llama3.2:1b "Why is the sky blue?"
  chairlift serve hf:owner/repo:Q4_K_M           serve it on http://127.0.0.1:8000
  chairlift help serve                           every setting of the server`,
  );
const [first = ''] = process.argv.slice(2);
await loadCommands(program, first === 'help' ? (process.argv[3] ?? '') : first);

/** Errors that explain themselves; others need a stack trace. */
const explained = [ModelFileError, BackendUnavailableError, ConfigError, StoreError, UsageError, PullError];

try {
  await program.parseAsync(withLongFlags(process.argv));
} catch (error) {
  const isExplained = explained.some((kind) => error instanceof kind);
  const text = error instanceof Error ? (isExplained ? error.message : error.stack) : String(error);
  process.stderr.write(`chairlift: ${text}\n`);
  process.exitCode = 1;
}
