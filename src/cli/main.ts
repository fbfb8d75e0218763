// The command line: one file per command, loaded where it is asked for; errors as one line.

import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { ConfigError } from '../config.ts';
import { PullError } from '../pool/model-reference.ts';
import { StoreError } from '../store/database.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { withLongFlags } from './foreign-flags.ts';
import { makeProgram } from './program.ts';
import { UsageError } from './usage-error.ts';

/** Errors that explain themselves; others need a stack trace. */
const explained = [ModelFileError, BackendUnavailableError, ConfigError, StoreError, UsageError, PullError];

/** Of a program that a closed pipe ends, as shells count it: SIGPIPE. */
const PIPE_CLOSED = 141;

// A reader such as `head` has read enough. A server goes on without one, and says so by a listener of its own.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (process.stdout.listenerCount('error') > 1) return;
  if (error.code !== 'EPIPE') throw error;
  process.exit(PIPE_CLOSED);
});

const program = await makeProgram(process.argv.slice(2));
try {
  await program.parseAsync(withLongFlags(process.argv));
} catch (error) {
  const isExplained = explained.some((kind) => error instanceof kind);
  const text = error instanceof Error ? (isExplained ? error.message : error.stack) : String(error);
  process.stderr.write(`chairlift: ${text}\n`);
  process.exitCode = 1;
}
