// The table of all commands: the groups of the help, the names they also go by, and the file of each.

import type { Command } from 'commander';

type AddCommand = (program: Command) => void;

interface CommandEntry {
  readonly load: () => Promise<AddCommand>;
  /** Names that other programs have for it. */
  readonly aliases?: readonly string[];
}

const groups: Readonly<Record<string, Readonly<Record<string, CommandEntry>>>> = {
  Use: {
    run: { load: async () => (await import('./run.ts')).addRun },
    serve: { load: async () => (await import('./serve.ts')).addServe, aliases: ['server', 'start'] },
    chat: { load: async () => (await import('./chat.ts')).addChat },
  },
  Models: {
    search: { load: async () => (await import('./search.ts')).addSearch, aliases: ['find'] },
    pull: { load: async () => (await import('./pull.ts')).addPull, aliases: ['download'] },
    list: { load: async () => (await import('./list.ts')).addList, aliases: ['ls', 'models'] },
    inspect: { load: async () => (await import('./inspect.ts')).addInspect, aliases: ['show', 'info'] },
    rm: { load: async () => (await import('./remove.ts')).addRemove, aliases: ['remove', 'delete'] },
  },
  'A running server': {
    ps: { load: async () => (await import('./ps.ts')).addPs },
    stop: { load: async () => (await import('./stop.ts')).addStop },
    logs: { load: async () => (await import('./logs.ts')).addLogs, aliases: ['log'] },
    keys: { load: async () => (await import('./keys.ts')).addKeys },
    usage: { load: async () => (await import('./usage.ts')).addUsage },
    cache: { load: async () => (await import('./cache.ts')).addCache },
    fleet: { load: async () => (await import('./fleet.ts')).addFleet },
  },
  'This machine': {
    doctor: { load: async () => (await import('./doctor.ts')).addDoctor },
    config: { load: async () => (await import('./config.ts')).addConfig },
    version: { load: async () => (await import('./version.ts')).addVersion },
    completion: { load: async () => (await import('./completion.ts')).addCompletion },
    man: { load: async () => (await import('./man.ts')).addMan },
  },
  'One model, without a server': {
    generate: { load: async () => (await import('./generate.ts')).addGenerate },
    batch: { load: async () => (await import('./batch.ts')).addBatch },
    tokenize: { load: async () => (await import('./tokenize.ts')).addTokenize },
    grammar: { load: async () => (await import('./grammar.ts')).addGrammar },
    logits: { load: async () => (await import('./logits.ts')).addLogits },
    bench: { load: async () => (await import('./bench.ts')).addBench, aliases: ['benchmark'] },
  },
};

const entries = Object.entries(groups).flatMap(([group, commands]) =>
  Object.entries(commands).map(([name, entry]) => ({ group, name, ...entry })),
);

/** Adds the command that goes by this name; all where there is none: for the help, and to suggest one for a mistyped one. */
export async function loadCommands(program: Command, word = ''): Promise<void> {
  if (word === '--version' || word === '-V') return;
  const named = entries.filter(({ name, aliases = [] }) => name === word || aliases.includes(word));
  // Completion and the manual describe them all.
  const isAboutAll = ['completion', 'man'].includes(word);
  for (const { group, name, aliases = [], load } of named.length > 0 && !isAboutAll ? named : entries) {
    (await load())(program);
    const command = program.commands.find((one) => one.name() === name);
    command?.aliases([...aliases]).helpGroup(`${group}:`);
  }
}
