// The one error the library gives on purpose: a code for programs, a message for people. Codes that the server
// has too are the same words.

import { ConfigError } from '../config.ts';
import { flagOf, optionNames } from '../config-options.ts';
import { GenerationError, type GenerationErrorCode } from '../generation/generation-error.ts';
import type { AcquireFailure } from '../pool/model-pool.ts';
import { StoreError } from '../store/database.ts';

export const errorCodes = [
  'invalid_configuration',
  'invalid_value',
  'context_length_exceeded',
  'no_chat_template',
  'model_not_capable',
  'model_load_failed',
  'model_does_not_fit',
  'model_closed',
  'numeric_error',
  'engine_failed',
  'database_unusable',
  'address_unavailable',
] as const;

export type ChairliftErrorCode = (typeof errorCodes)[number];

export class ChairliftError extends Error {
  override readonly name = 'ChairliftError';
  readonly code: ChairliftErrorCode;

  constructor(code: ChairliftErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
  }
}

export function invalidValue(name: string, problem: string): ChairliftError {
  return new ChairliftError('invalid_value', `${name}: ${problem}`);
}

/** Converts errors of the rooms below to the library's own; others stay as they are. */
export function asLibraryError(error: unknown): unknown {
  if (error instanceof GenerationError) return fromGeneration(error);
  if (error instanceof ConfigError) {
    return new ChairliftError('invalid_configuration', withOptionName(error.message), error);
  }
  if (error instanceof StoreError) return new ChairliftError('database_unusable', error.message, error);
  const { syscall, message } = error as Partial<NodeJS.ErrnoException>;
  return syscall === 'listen' || syscall === 'getaddrinfo'
    ? new ChairliftError('address_unavailable', message ?? syscall, error)
    : error;
}

export function loadError(failure: AcquireFailure, message: string): ChairliftError {
  return new ChairliftError(loadCodes[failure], message);
}

const loadCodes: Readonly<Record<AcquireFailure, ChairliftErrorCode>> = {
  'unknown-model': 'model_load_failed',
  elsewhere: 'model_load_failed',
  'load-failed': 'model_load_failed',
  'engine-died': 'engine_failed',
  away: 'engine_failed',
  'no-memory': 'model_does_not_fit',
  cancelled: 'model_closed',
  closing: 'model_closed',
};

const callCodes: Readonly<Record<GenerationErrorCode, ChairliftErrorCode>> = {
  invalid_value: 'invalid_value',
  invalid_type: 'invalid_value',
  missing_required_parameter: 'invalid_value',
  string_above_max_length: 'invalid_value',
  context_length_exceeded: 'context_length_exceeded',
  no_chat_template: 'no_chat_template',
  model_not_capable: 'model_not_capable',
  closing: 'model_closed',
  numeric_error: 'numeric_error',
  invalid_grammar: 'invalid_value',
  grammar_failed: 'invalid_value',
  // Only in fleets, which the library does not join.
  superseded: 'engine_failed',
  no_worker: 'engine_failed',
  engine_failed: 'engine_failed',
};

function fromGeneration(error: GenerationError): ChairliftError {
  const hint = error.code === 'no_chat_template' ? '; use complete() with a whole prompt' : '';
  return new ChairliftError(callCodes[error.code], error.message + hint, error);
}

/** A program says `kvType`, not `--kv-type`. */
function withOptionName(message: string): string {
  const name = optionNames.find((one) => message.startsWith(`${flagOf(one)}:`));
  return name === undefined ? message : name + message.slice(flagOf(name).length);
}
