// Options that several commands share, and the errors of values that cannot be used.

import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { processInputs, resolveConfig } from '../config.ts';
import { type ConfigOption, configOptions, flagOf, optionNames } from '../config-options.ts';
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
  command.option('--config <file>', 'config file; ~/.chairlift/config.json where it exists');
  for (const name of optionNames) {
    const { kind, meaning }: ConfigOption = configOptions[name];
    const flag = flagOf(name);
    if (kind.type === 'switch') command.addOption(new Option(flag, meaning));
    else if (kind.type === 'list') command.addOption(new Option(`${flag} <values...>`, meaning));
    else command.addOption(new Option(`${flag} <${kind.type}>`, meaning));
  }
  return command;
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
