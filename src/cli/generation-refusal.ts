// Why no answer can be given, as the command line says it: one line for people.

import { GenerationError } from '../generation/generation-error.ts';
import { UsageError } from './usage-error.ts';

/** Anything that is no refusal stays what it is. `where` says which of many requests is meant. */
export function asUsageError(error: unknown, where?: string): unknown {
  if (!(error instanceof GenerationError)) return error;
  const hint =
    error.code === 'no_chat_template' ? "; 'chairlift generate' continues a plain text with it" : '';
  return new UsageError(`${where === undefined ? '' : `${where}: `}${error.message}${hint}`);
}
