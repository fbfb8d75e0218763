// The command line: one file per command, errors as one line.

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { BackendUnavailableError } from '../compute/choose-backend.ts';
import { ConfigError } from '../config.ts';
import { StoreError } from '../store/store-error.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { addBatch } from './batch.ts';
import { addBench } from './bench.ts';
import { addChat } from './chat.ts';
import { addConfig } from './config.ts';
import { addDoctor } from './doctor.ts';
import { addFleet } from './fleet.ts';
import { addGenerate } from './generate.ts';
import { addGrammar } from './grammar.ts';
import { addInspect } from './inspect.ts';
import { addKeys } from './keys.ts';
import { addList } from './list.ts';
import { addLogits } from './logits.ts';
import { addPs } from './ps.ts';
import { addPull } from './pull.ts';
import { addServe } from './serve.ts';
import { addTokenize } from './tokenize.ts';
import { addUsage } from './usage.ts';
import { UsageError } from './usage-error.ts';

const { version, description } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string; description: string };

const program = new Command('chairlift').description(description).version(version);
addServe(program);
addChat(program);
addPull(program);
addList(program);
addPs(program);
addFleet(program);
addDoctor(program);
addConfig(program);
addKeys(program);
addUsage(program);
addInspect(program);
addTokenize(program);
addGrammar(program);
addLogits(program);
addGenerate(program);
addBatch(program);
addBench(program);

/** Errors that say by themselves what to do; of any other the trace is needed to find its cause. */
const explained = [ModelFileError, BackendUnavailableError, ConfigError, StoreError, UsageError];

try {
  await program.parseAsync();
} catch (error) {
  const isExplained = explained.some((kind) => error instanceof kind);
  const text = error instanceof Error ? (isExplained ? error.message : error.stack) : String(error);
  process.stderr.write(`chairlift: ${text}\n`);
  process.exitCode = 1;
}
