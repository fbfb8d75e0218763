// The command line: one file per command, errors as one line.

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { BackendUnavailableError } from '../compute/choose-backend.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { addBatch } from './batch.ts';
import { addGenerate } from './generate.ts';
import { addInspect } from './inspect.ts';
import { addLogits } from './logits.ts';
import { addTokenize } from './tokenize.ts';
import { UsageError } from './usage-error.ts';

const { version, description } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string; description: string };

const program = new Command('chairlift').description(description).version(version);
addInspect(program);
addTokenize(program);
addLogits(program);
addGenerate(program);
addBatch(program);

/** Errors that say by themselves what to do; of any other the trace is needed to find its cause. */
function isExplained(error: unknown): error is Error {
  return (
    error instanceof ModelFileError || error instanceof BackendUnavailableError || error instanceof UsageError
  );
}

try {
  await program.parseAsync();
} catch (error) {
  const text = isExplained(error) ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`chairlift: ${text}\n`);
  process.exitCode = 1;
}
