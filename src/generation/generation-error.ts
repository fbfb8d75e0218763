// Why an answer cannot be given, in words for whoever asked: a code for programs, and the parameter to blame. Knows
// neither HTTP nor the command line; each edge makes its own of it.

import type { RequestError } from '../engine/request.ts';
import type { ParameterNames } from './sampling-settings.ts';

export type GenerationErrorCode =
  | 'invalid_value'
  | 'invalid_type'
  | 'missing_required_parameter'
  | 'string_above_max_length'
  | 'context_length_exceeded'
  | 'no_chat_template'
  /** A schema or grammar is malformed, cannot be enforced or is too large. */
  | 'invalid_grammar'
  /** The model was not made for what it is asked. */
  | 'model_not_capable'
  /** The engine takes no new requests. */
  | 'closing'
  | 'numeric_error'
  /** The answer cannot go on as its grammar wants. */
  | 'grammar_failed'
  | 'engine_failed';

export class GenerationError extends Error {
  override readonly name = 'GenerationError';
  readonly code: GenerationErrorCode;
  /** As the asker calls it. */
  readonly parameter: string | undefined;

  constructor(code: GenerationErrorCode, message: string, parameter?: string) {
    super(message);
    this.code = code;
    this.parameter = parameter;
  }
}

export function invalid(
  parameter: string,
  problem: string,
  code: GenerationErrorCode = 'invalid_value',
): GenerationError {
  return new GenerationError(code, `${parameter}: ${problem}`, parameter);
}

/** `problem` follows the model's name. */
export function notCapable(name: string, problem: string): GenerationError {
  return new GenerationError('model_not_capable', `the model '${name}' ${problem}`, 'model');
}

/** Of a model without a head. */
export function notContinued(name: string): GenerationError {
  return notCapable(name, 'embeds texts and cannot continue them');
}

/** What the engine says of a request, with the asker's names of parameters. */
export function engineError(
  { code, message }: RequestError,
  names: Partial<Pick<ParameterNames, 'logitBias' | 'maxTokens'>>,
): GenerationError {
  switch (code) {
    case 'too-long':
    case 'never-fits':
      return new GenerationError('context_length_exceeded', message);
    case 'answer-never-fits':
      return new GenerationError('context_length_exceeded', message, names.maxTokens);
    case 'invalid':
      return new GenerationError('invalid_value', message);
    case 'grammar-failed':
      return new GenerationError('grammar_failed', message);
    case 'no-candidate':
      return new GenerationError('invalid_value', message, names.logitBias);
    case 'draining':
      return new GenerationError('closing', message);
    case 'numeric-error':
      return new GenerationError('numeric_error', message);
    case 'engine-failed':
      return new GenerationError('engine_failed', message);
  }
}
