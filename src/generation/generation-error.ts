// Why a request cannot be answered: a code for programs, a message, and the parameter to blame by the caller's name.

import type { RequestError } from '../engine/request.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';

export type SamplingNames = Readonly<Record<keyof SamplingParameters, string>>;

export interface ParameterNames extends SamplingNames {
  readonly prompt: string;
}

export type GenerationErrorCode =
  | 'invalid_value'
  | 'invalid_type'
  | 'missing_required_parameter'
  | 'string_above_max_length'
  | 'context_length_exceeded'
  | 'no_chat_template'
  | 'invalid_grammar'
  | 'model_not_capable'
  | 'closing'
  | 'superseded'
  | 'no_worker'
  | 'numeric_error'
  | 'grammar_failed'
  | 'engine_failed';

/** How long a prompt is, and how much the context holds. */
export interface ContextSizes {
  readonly promptTokens: number;
  readonly contextTokens: number;
}

export class GenerationError extends Error {
  override readonly name = 'GenerationError';
  readonly code: GenerationErrorCode;
  readonly parameter: string | undefined;
  /** Set where the context is too small. */
  readonly sizes: ContextSizes | undefined;

  constructor(code: GenerationErrorCode, message: string, parameter?: string, sizes?: ContextSizes) {
    super(message);
    this.code = code;
    this.parameter = parameter;
    this.sizes = sizes;
  }
}

export function invalid(
  parameter: string,
  problem: string,
  code: GenerationErrorCode = 'invalid_value',
): GenerationError {
  return new GenerationError(code, `${parameter}: ${problem}`, parameter);
}

export function notCapable(name: string, problem: string): GenerationError {
  return new GenerationError('model_not_capable', `the model '${name}' ${problem}`, 'model');
}

export function notContinued(name: string): GenerationError {
  return notCapable(name, 'embeds texts and cannot continue them');
}

/** Converts an engine's error, with the caller's names of parameters. */
export function engineError(
  { code, message, parameter }: RequestError,
  names: Partial<Pick<ParameterNames, 'logitBias' | 'maxTokens'>>,
): GenerationError {
  if (parameter !== undefined) return invalid(parameter, message, engineCodes[code]);
  const blamed = code === 'no-candidate' ? names.logitBias : undefined;
  return new GenerationError(
    engineCodes[code],
    message,
    code === 'answer-never-fits' ? names.maxTokens : blamed,
  );
}

const engineCodes: Readonly<Record<RequestError['code'], GenerationErrorCode>> = {
  'too-long': 'context_length_exceeded',
  'never-fits': 'context_length_exceeded',
  'answer-never-fits': 'context_length_exceeded',
  invalid: 'invalid_value',
  'unreadable-picture': 'invalid_value',
  'grammar-failed': 'grammar_failed',
  'no-candidate': 'invalid_value',
  draining: 'closing',
  superseded: 'superseded',
  'no-worker': 'no_worker',
  'numeric-error': 'numeric_error',
  'engine-failed': 'engine_failed',
};
