// The program with its commands, those that a command line needs; main.ts runs it.

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { loadCommands } from './commands.ts';
import { typedIn, withHint } from './foreign-flags.ts';

const EXAMPLES = `
Examples:
  chairlift run llama3.2:1b                      pull it if need be, then chat
  chairlift run llama3.2:1b "Why is the sky blue?"
  chairlift serve hf:owner/repo:Q4_K_M           serve it on http://127.0.0.1:8000
  chairlift help serve                           every setting of the server`;

/** `words`: what comes after the program's name. `prepare` is for what commands inherit. */
export async function makeProgram(
  words: readonly string[],
  prepare: (program: Command) => void = () => {},
): Promise<Command> {
  const { version, description } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { version: string; description: string };
  const [first = '', second = ''] = words;
  const typed = typedIn(words);
  const program = new Command('chairlift')
    .description(description)
    .version(version)
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({ outputError: (text, write) => write(withHint(text, typed)) })
    .addHelpText('after', EXAMPLES);
  prepare(program);
  await loadCommands(program, first === 'help' ? second : first);
  return program;
}
