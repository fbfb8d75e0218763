import { describe, expect, it } from 'vitest';
import { GenerationError, type GenerationErrorCode } from '../../generation/generation-error.ts';
import { errorSchema } from '../openai/schemas/answers.ts';
import {
  ApiError,
  acquireError,
  ClientLeft,
  endedByShutdown,
  isServerFault,
  kindOf,
  shuttingDown,
  toApiError,
} from './errors.ts';

describe('an error', () => {
  it('has the four fields of its shape, null where there is nothing to say', () => {
    expect(new ApiError(400, 'wrong').body()).toEqual({
      error: { message: 'wrong', type: 'invalid_request_error', param: null, code: null },
    });
    expect(errorSchema.parse(new ApiError(500, 'broken', { param: 'a', code: 'b' }).body()).error).toEqual({
      message: 'broken',
      type: 'server_error',
      param: 'a',
      code: 'b',
    });
  });

  it.each([
    [401, 'authentication_error'],
    [403, 'permission_error'],
    [404, 'invalid_request_error'],
    [408, 'timeout_error'],
    [429, 'rate_limit_error'],
    [503, 'server_error'],
  ])('of status %i has the type %s', (status, type) => {
    expect(new ApiError(status, '').type).toBe(type);
  });

  it('of a generation gets the status of whose fault it is, and keeps its code and parameter', () => {
    const statuses: Record<GenerationErrorCode, number> = {
      invalid_value: 400,
      invalid_type: 400,
      missing_required_parameter: 400,
      string_above_max_length: 400,
      context_length_exceeded: 400,
      no_chat_template: 400,
      model_not_capable: 400,
      closing: 503,
      numeric_error: 500,
      invalid_grammar: 400,
      grammar_failed: 400,
      superseded: 409,
      no_worker: 503,
      engine_failed: 500,
    };
    for (const [code, status] of Object.entries(statuses)) {
      expect(toApiError(new GenerationError(code as GenerationErrorCode, 'm')).status).toBe(status);
    }
    expect(toApiError(new GenerationError('invalid_value', 'm', 'top_p'))).toMatchObject({
      code: 'invalid_value',
      param: 'top_p',
      message: 'm',
    });
    expect(kindOf(new GenerationError('closing', 'm'))).toBe('shutting_down');
  });

  it('for want of a chat template says what else there is', () => {
    expect(toApiError(new GenerationError('no_chat_template', 'none')).message).toMatch(
      /^none; .*\/v1\/completions/,
    );
  });

  it('from the pool distinguishes an unknown model from one that cannot be loaded', () => {
    expect(acquireError('unknown-model', '', 'x')).toMatchObject({ status: 404, code: 'model_not_found' });
    expect(acquireError('no-memory', 'm', 'x')).toMatchObject({ status: 503 });
    expect(acquireError('load-failed', 'm', 'x')).toMatchObject({ status: 500 });
    expect(acquireError('engine-died', 'm', 'x')).toMatchObject({
      status: 503,
      message: 'm',
      headers: { 'retry-after': '10' },
    });
    expect(acquireError('closing', 'm', 'x')).toMatchObject({ status: 503 });
  });

  it('that was not expected shows clients nothing of the inside', () => {
    const failure = toApiError(new Error('secret path /home/x'));
    expect(failure.status).toBe(500);
    expect(failure.message).not.toContain('secret');
  });

  it('of a shutdown is nothing to look into, unlike those of the server itself', () => {
    expect(isServerFault(shuttingDown())).toBe(false);
    expect(isServerFault(endedByShutdown())).toBe(false);
    expect(isServerFault(new GenerationError('closing', 'm'))).toBe(false);
    expect(isServerFault(new ClientLeft())).toBe(false);
    expect(isServerFault(acquireError('engine-died', 'm', 'x'))).toBe(true);
    expect(isServerFault(new Error('x'))).toBe(true);
  });

  it('has one word for logs', () => {
    expect(kindOf(new ClientLeft())).toBe('client_left');
    expect(kindOf(new ApiError(400, '', { code: 'invalid_value' }))).toBe('invalid_value');
    expect(kindOf(new TypeError('x'))).toBe('internal_error');
  });
});
