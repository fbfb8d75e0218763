import { expect, it } from 'vitest';
import { ApiError } from '../http/errors.ts';
import { anthropicError } from './errors.ts';

it.each([
  [400, 'invalid_request_error'],
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [408, 'timeout_error'],
  [413, 'request_too_large'],
  [415, 'invalid_request_error'],
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [503, 'overloaded_error'],
])("an error of status %i has Anthropic's type %s", (status, type) => {
  expect(anthropicError(new ApiError(status, 'why'), { id: 'req_1' })).toEqual({
    type: 'error',
    error: { type, message: 'why' },
    request_id: 'req_1',
  });
});

it('a prompt that is too long is called so', () => {
  const error = new ApiError(400, 'it has 5 tokens', { code: 'context_length_exceeded' });
  expect(anthropicError(error, { id: 'req_1' })).toMatchObject({
    error: { message: 'prompt is too long: it has 5 tokens' },
  });
});

it.each(['min_tokens', 'max_tokens'])(
  'a %s that does not fit is not called a prompt that is too long',
  (param) => {
    const error = new ApiError(400, '9000 do not fit', { code: 'context_length_exceeded', param });
    expect(anthropicError(error, { id: 'req_1' })).toMatchObject({ error: { message: '9000 do not fit' } });
  },
);
