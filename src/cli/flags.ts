// Options that several commands share, and the errors of values that cannot be used.

import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { processInputs, resolveConfig } from '../config.ts';
import {
  type ConfigOption,
  configOptions,
  flagOf,
  type OptionKind,
  optionGroups,
  optionNames,
} from '../config-options.ts';
import { plainMeaning, settingText } from '../config-text.ts';
import { GenerationError } from '../generation/generation-error.ts';
import {
  grammarFormat,
  type ResponseFormat,
  regexFormat,
  schemaFormat,
} from '../generation/response-format.ts';
import { messageOf } from '../runtime/error-message.ts';
import { defaultDatabasePath } from '../store/database.ts';
import { UsageError } from './usage-error.ts';

/** Errors that are no refusals stay as they are. `where` names one of many requests. */
export function asUsageError(error: unknown, where?: string): unknown {
  if (!(error instanceof GenerationError)) return error;
  const hint =
    error.code === 'no_chat_template' ? "; 'chairlift generate' continues a plain text with it" : '';
  return new UsageError(`${where === undefined ? '' : `${where}: `}${error.message}${hint}`);
}

export function parseIds(text: string): number[] {
  const ids = text.split(',').map((part) => part.trim());
  if (ids.length === 0 || !ids.every((part) => /^\d+$/.test(part))) {
    throw new InvalidArgumentError('give token ids as whole numbers, separated by commas: 1,2,3');
  }
  return ids.map(Number);
}

export function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw new InvalidArgumentError('give a whole number from 1');
  return count;
}

export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('give a number');
  return value;
}

export function parseInteger(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isSafeInteger(value))
    throw new InvalidArgumentError('give a whole number');
  return value;
}

export function parseTemperature(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) {
    throw new InvalidArgumentError('give a number from 0');
  }
  return value;
}

/** Values stay as typed: config.ts parses them together with the other sources. */
export function addConfigOptions(command: Command): Command {
  let group = '';
  for (const name of optionNames) {
    const option: ConfigOption = configOptions[name];
    const heading = optionGroups[name];
    if (heading !== undefined) group = `${heading}:`;
    const short = option.short === undefined ? '' : `-${option.short}, `;
    const flags = `${short}${flagOf(name)}${valuePart(option)}`;
    const isOn = option.kind.type === 'switch' && option.default === true;
    const given = new Option(flags, helpOf(option)).helpGroup(group);
    command.addOption(isOn ? given.hideHelp() : given);
    if (isOn) command.addOption(new Option(`--no-${flagOf(name).slice(2)}`, helpOf(option)).helpGroup(group));
  }
  for (const name of optionNames) {
    const option: ConfigOption = configOptions[name];
    for (const alias of option.aliases ?? [])
      addAlias(command, `--${alias}${valuePart(option)}`, flagOf(name));
  }
  return command
    .optionsGroup('Other:')
    .option('--config <file>', 'config file; ~/.chairlift/config.json where it exists')
    .helpOption('-h, --help', 'show this');
}

/** Another spelling of an option; the help leaves it out. */
export function addAlias(command: Command, flags: string, canonical: string): Command {
  const alias = new Option(flags).hideHelp().helpGroup('Other:');
  return command
    .addOption(alias)
    .on(`option:${alias.name()}`, (value: string) =>
      (command as unknown as EventEmitter).emit(`option:${canonical.slice(2)}`, value),
    );
}

/** What a value looks like, by its kind. */
const values: Readonly<Record<Exclude<OptionKind['type'], 'switch'>, string>> = {
  text: 'text',
  list: 'values...',
  integer: 'number',
  bytes: 'size',
  seconds: 'time',
  part: 'part',
  choice: 'name',
  upstreams: 'json',
};

function valuePart({ kind }: ConfigOption): string {
  return kind.type === 'switch' ? '' : ` <${values[kind.type]}>`;
}

/** The meaning without Markdown, with choices and default; other settings by their flags. */
export function helpOf({ kind, meaning, default: standard }: ConfigOption): string {
  const choices = kind.type === 'choice' ? [`one of ${kind.values.join(', ')}`] : [];
  const isShown = standard !== undefined && standard !== false && !Array.isArray(standard);
  const defaults = isShown ? [`default: ${settingText(kind, standard)}`] : [];
  const details = [...choices, ...defaults].join('; ');
  return `${plainMeaning(meaning)}${details === '' ? '' : ` (${details})`}`;
}

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

export interface StructureFlags {
  readonly schema?: string;
  readonly regex?: string;
  readonly grammar?: string;
}

export function addStructureOptions(command: Command): Command {
  return command
    .option('--schema <file>', 'a JSON schema of the text')
    .option('--regex <pattern>', 'a regular expression that all of the text matches')
    .option('--grammar <file>', 'a grammar of the text, in GBNF');
}

export const ONE_OF = 'give one of --schema, --regex and --grammar';

export function structureFrom({ schema, regex, grammar }: StructureFlags): ResponseFormat | undefined {
  if ([schema, regex, grammar].filter((flag) => flag !== undefined).length > 1) throw new UsageError(ONE_OF);
  if (schema !== undefined) return schemaFormat('--schema', parseSchema(schema), true);
  if (grammar !== undefined) return grammarFormat('--grammar', readText(grammar));
  return regex === undefined ? undefined : regexFormat('--regex', regex);
}

function parseSchema(file: string): unknown {
  try {
    return JSON.parse(readText(file));
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${file} is no JSON: ${messageOf(error)}`);
  }
}

export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  }
}
