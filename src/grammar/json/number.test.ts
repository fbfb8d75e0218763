import { describe, expect, it } from 'vitest';
import { rulesOf } from '../assemble.ts';
import { checkBytes } from '../check-text.ts';
import { compileRules } from '../compile.ts';

describe('a number between bounds', () => {
  const schema = { type: 'number', minimum: 0, maximum: 1 };
  const tables = compileRules(rulesOf({ kind: 'schema', schema }, () => undefined).rules);
  const allows = (text: string) => checkBytes(tables, text).accepted;

  it('is written in plain digits, or with an exponent', () => {
    for (const text of ['0', '1', '0.5', '1.0', '3e-7', '3.47e-07', '1.2345678901234567e-9']) {
      expect(allows(text), text).toBe(true);
    }
    for (const text of ['3', '3.47', '1.1', '-0.5', '3.47e0']) expect(allows(text), text).toBe(false);
  });

  it('comes to its exponent after as many digits as a program would write', () => {
    expect(allows(`3.${'4'.repeat(20)}e-7`)).toBe(true);
    expect(allows(`3.${'4'.repeat(21)}e-7`)).toBe(false);
  });
});
