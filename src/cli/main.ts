// The command line: one file per command, loaded where it is asked for; errors as one line.

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { ConfigError } from '../config.ts';
import { StoreError } from '../store/database.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { UsageError } from './usage-error.ts';

const { version, description } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string; description: string };

type LoadCommand = () => Promise<(program: Command) => void>;

const commands: Readonly<Record<string, LoadCommand>> = {
  serve: async () => (await import('./serve.ts')).addServe,
  chat: async () => (await import('./chat.ts')).addChat,
  pull: async () => (await import('./pull.ts')).addPull,
  list: async () => (await import('./list.ts')).addList,
  ps: async () => (await import('./ps.ts')).addPs,
  fleet: async () => (await import('./fleet.ts')).addFleet,
  doctor: async () => (await import('./doctor.ts')).addDoctor,
  config: async () => (await import('./config.ts')).addConfig,
  keys: async () => (await import('./keys.ts')).addKeys,
  usage: async () => (await import('./usage.ts')).addUsage,
  inspect: async () => (await import('./inspect.ts')).addInspect,
  tokenize: async () => (await import('./tokenize.ts')).addTokenize,
  grammar: async () => (await import('./grammar.ts')).addGrammar,
  logits: async () => (await import('./logits.ts')).addLogits,
  generate: async () => (await import('./generate.ts')).addGenerate,
  batch: async () => (await import('./batch.ts')).addBatch,
  bench: async () => (await import('./bench.ts')).addBench,
};

/** All without a name: for the help, and to suggest a command for a mistyped one. */
function needed(word = ''): LoadCommand[] {
  if (word === '--version' || word === '-V') return [];
  const named = Object.hasOwn(commands, word) ? commands[word] : undefined;
  return named === undefined ? Object.values(commands) : [named];
}

const program = new Command('chairlift').description(description).version(version);
for (const load of needed(process.argv[2])) (await load())(program);

/** Errors that explain themselves; others need a stack trace. */
const explained = [ModelFileError, BackendUnavailableError, ConfigError, StoreError, UsageError];

try {
  await program.parseAsync();
} catch (error) {
  const isExplained = explained.some((kind) => error instanceof kind);
  const text = error instanceof Error ? (isExplained ? error.message : error.stack) : String(error);
  process.stderr.write(`chairlift: ${text}\n`);
  process.exitCode = 1;
}
