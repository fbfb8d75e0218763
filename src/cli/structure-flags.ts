// What an answer shall be, as flags of a command: --schema FILE, --regex PATTERN or --grammar FILE.

import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import {
  grammarFormat,
  type ResponseFormat,
  regexFormat,
  schemaFormat,
} from '../generation/response-format.ts';
import { messageOf } from '../runtime/error-message.ts';
import { UsageError } from './usage-error.ts';

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

/** Undefined where no flag is given. */
export function structureFrom({ schema, regex, grammar }: StructureFlags): ResponseFormat | undefined {
  if ([schema, regex, grammar].filter((flag) => flag !== undefined).length > 1) throw new UsageError(ONE_OF);
  if (schema !== undefined) return schemaFormat('--schema', parseSchema(schema));
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
