// `chairlift man`: the manual page, made from the commands and options that there are.

import { spawnSync } from 'node:child_process';
import type { Argument, Command, Option } from 'commander';

export function addMan(program: Command): void {
  program
    .command('man')
    .description('show the manual; elsewhere than at a terminal, print the source of its page')
    .action(() => {
      const page = manualPage(program);
      if (process.stdout.isTTY) {
        const { status } = spawnSync('man', ['-l', '-'], {
          input: page,
          stdio: ['pipe', 'inherit', 'inherit'],
        });
        if (status === 0) return;
      }
      process.stdout.write(page);
    });
}

export function manualPage(program: Command): string {
  const commands = program.commands.flatMap((command) => [command, ...command.commands]);
  return [
    `.TH CHAIRLIFT 1 "" "chairlift ${program.version() ?? ''}" "User Commands"`,
    '.SH NAME',
    'chairlift \\- self-hosted LLM inference server',
    '.SH SYNOPSIS',
    '.B chairlift',
    '.I command',
    '[\\fIarguments\\fR] [\\fIoptions\\fR]',
    '.SH DESCRIPTION',
    text(`${program.description()}.`),
    '.SH COMMANDS',
    ...commands.flatMap(describe),
    '.SH ENVIRONMENT',
    ...item('CHAIRLIFT_*', 'every setting of the server: CHAIRLIFT_MAX_BATCH_SIZE is --max-batch-size'),
    ...item('HF_TOKEN, HF_ENDPOINT', 'access token for the Hugging Face hub, and the address of a mirror'),
    ...item(
      'HF_HOME, HF_HUB_CACHE',
      "where Hugging Face's cache is; models in it are served from where they lie",
    ),
    ...item('NO_COLOR', 'no colours at a terminal'),
    '.SH FILES',
    ...item('~/.chairlift/config.json', 'settings of the server'),
    ...item('~/.chairlift/models', 'models that were pulled'),
    ...item('~/.chairlift/chairlift.db', 'keys, usage, responses, files and batches'),
    ...item('~/.chairlift/chat-history', 'what was typed in chats'),
    '.SH EXAMPLES',
    ...item('chairlift run llama3.2:1b', 'pull it if need be, then chat'),
    ...item('cat notes.txt | chairlift run llama3.2:1b "Say this shorter"', 'one answer'),
    ...item('chairlift serve hf:owner/repo:Q4_K_M', 'serve a model of the Hugging Face hub'),
    '',
  ].join('\n');
}

function describe(command: Command): string[] {
  const { parent } = command;
  const prefix = parent?.parent ? `${parent.name()} ` : '';
  const args = command.registeredArguments.map(usageOf).join(' ');
  const [alias] = command.aliases();
  return [
    `.SS ${text(`${prefix}${command.name()} ${args}`.trim())}`,
    text(`${command.description()}${alias === undefined ? '' : ` (also: ${command.aliases().join(', ')})`}`),
    ...command.registeredArguments
      .filter(({ description }) => description !== '')
      .flatMap((one) => item(usageOf(one), one.description)),
    ...command.options.filter(({ hidden }) => !hidden).flatMap((one) => item(one.flags, meaningOf(one))),
  ];
}

function usageOf(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function meaningOf({ description, argChoices, defaultValue, defaultValueDescription }: Option): string {
  const choices = argChoices === undefined ? [] : [`one of ${argChoices.join(', ')}`];
  const isShown = defaultValue !== undefined && typeof defaultValue !== 'boolean';
  const defaults = isShown ? [`default: ${defaultValueDescription ?? defaultValue}`] : [];
  const details = [...choices, ...defaults].join('; ');
  return `${description}${details === '' ? '' : ` (${details})`}`;
}

function item(name: string, meaning: string): string[] {
  return ['.TP', `.B ${text(name)}`, text(meaning)];
}

/** No character of it is a command of roff. */
function text(plain: string): string {
  return plain
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('’', '\\(cq')
    .replaceAll('…', '...')
    .replace(/^([.'])/, '\\&$1');
}
