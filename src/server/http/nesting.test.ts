import { describe, expect, it } from 'vitest';
import { isTooDeep } from './nesting.ts';

const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

describe('how deep a body is nested', () => {
  it('may be a thousand levels', () => {
    expect(isTooDeep(nested(1000))).toBe(false);
    expect(isTooDeep(nested(1002))).toBe(true);
  });

  it('counts no brackets within strings, escaped quotes among them', () => {
    for (const text of ['[', '\\"[', '\\\\\\"[']) {
      expect(isTooDeep(`["${text.repeat(2000)}"]`)).toBe(false);
    }
    expect(isTooDeep(`["\\\\",${'['.repeat(1000)}`)).toBe(true);
  });

  it('is told of wide bodies and broken ones, too', () => {
    expect(isTooDeep(`[${'[],'.repeat(100_000)}[]]`)).toBe(false);
    expect(isTooDeep('"never closed')).toBe(false);
    expect(isTooDeep('{"a": "\\')).toBe(false);
  });
});
