import { describe, expect, it } from 'vitest';
import type { RequestErrorCode } from '../engine/request.ts';
import { ApiError, acquireError, ClientLeft, engineError, kindOf, toApiError } from './errors.ts';
import { errorSchema } from './schemas/answers.ts';

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

  it('from the engine gets the status of whose fault it is', () => {
    const statuses: Record<RequestErrorCode, number> = {
      'too-long': 400,
      'never-fits': 400,
      invalid: 400,
      'no-candidate': 400,
      draining: 503,
      'numeric-error': 500,
      'engine-failed': 500,
    };
    for (const [code, status] of Object.entries(statuses)) {
      expect(engineError({ code: code as RequestErrorCode, message: 'm' }).status).toBe(status);
    }
  });

  it('from the pool tells an unknown model from one that cannot be loaded', () => {
    expect(acquireError('unknown-model', '', 'x')).toMatchObject({ status: 404, code: 'model_not_found' });
    expect(acquireError('no-memory', 'm', 'x')).toMatchObject({ status: 503 });
    expect(acquireError('load-failed', 'm', 'x')).toMatchObject({ status: 500 });
    expect(acquireError('closing', 'm', 'x')).toMatchObject({ status: 503 });
  });

  it('that nobody expected tells clients nothing of the inside', () => {
    const failure = toApiError(new Error('secret path /home/x'));
    expect(failure.status).toBe(500);
    expect(failure.message).not.toContain('secret');
  });

  it('has one word for logs', () => {
    expect(kindOf(new ClientLeft())).toBe('client_left');
    expect(kindOf(new ApiError(400, '', { code: 'invalid_value' }))).toBe('invalid_value');
    expect(kindOf(new TypeError('x'))).toBe('internal_error');
  });
});
