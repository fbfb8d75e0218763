import { describe, expect, it } from 'vitest';
import { formatDuration, retryHeaders } from './key-state.ts';

describe('formatDuration', () => {
  it.each([
    [0, '0s'],
    [1, '1ms'],
    [999, '999ms'],
    [1000, '1s'],
    [8640, '8.64s'],
    [60_000, '1m0s'],
    [90_951, '1m30.951s'],
    [360_000, '6m0s'],
    [3_600_000, '1h0m0s'],
    [86_399_000, '23h59m59s'],
  ])('writes %i ms as %s', (durationMs, text) => expect(formatDuration(durationMs)).toBe(text));
});

describe('retryHeaders', () => {
  it('never send a client back too early', () => {
    expect(retryHeaders(1)).toEqual({ 'retry-after': '1', 'retry-after-ms': '1' });
    expect(retryHeaders(1000)['retry-after']).toBe('1');
    expect(retryHeaders(1001)['retry-after']).toBe('2');
  });
});
