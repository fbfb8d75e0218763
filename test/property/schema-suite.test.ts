// JSON Schema's official suite: no invalid value is accepted, no valid one refused, and few schemas cannot be enforced.
// `CHAIRLIFT_SCHEMA_SUITE` is its folder of the draft 2020-12; the source package of `jsonschema` on PyPI has it in
// `json/tests/draft2020-12`. Without it the test is skipped.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { checkBytes } from '../../src/grammar/check-text.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import { GrammarError } from '../../src/grammar/grammar-error.ts';
import { isValidText } from '../../src/grammar/json/validate.ts';
import type { GrammarTables } from '../../src/grammar/tables.ts';

interface Group {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly {
    readonly description: string;
    readonly data: unknown;
    readonly valid: boolean;
  }[];
}

const folder = process.env.CHAIRLIFT_SCHEMA_SUITE;
/** Need documents of other servers. */
const elsewhere = ['refRemote.json'];
/** Formats are annotations there and are enforced here; a vocabulary that has no validation is a whole other language. */
const others = ['format.json', 'vocabulary.json'];
const MAX_REFUSED = 25;

function groupsOf(): [file: string, group: Group][] {
  if (folder === undefined) return [];
  const files = readdirSync(folder).filter((name) => name.endsWith('.json') && !elsewhere.includes(name));
  return files.flatMap((name) =>
    (JSON.parse(readFileSync(join(folder, name), 'utf8')) as Group[]).map((group): [string, Group] => [
      name,
      group,
    ]),
  );
}

function compiled(schema: unknown): GrammarTables | GrammarError {
  try {
    return compileRules(rulesOf({ kind: 'schema', schema }, () => undefined).rules);
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
}

describe.skipIf(folder === undefined)("JSON Schema's official suite", () => {
  it('accepts nothing that is invalid, and refuses few schemas', { timeout: 600_000 }, () => {
    const refused: string[] = [];
    for (const [file, { description, schema, tests }] of groupsOf()) {
      const tables = compiled(schema);
      if (tables instanceof GrammarError) {
        if (tables.problem === 'empty') expect(tests.filter(({ valid }) => valid)).toEqual([]);
        else refused.push(`${file}: ${description}: ${tables.message}`);
        continue;
      }
      for (const { description: what, data, valid } of tests) {
        const where = `${file}: ${description}: ${what}`;
        if (!valid) expect(checkBytes(tables, JSON.stringify(data)).accepted, where).toBe(false);
      }
    }
    console.log(`refused ${refused.length}:\n${refused.join('\n')}`);
    expect(refused.length).toBeLessThanOrEqual(MAX_REFUSED);
  });

  it('is judged alike by the validator of finished answers', () => {
    for (const [file, { description, schema, tests }] of groupsOf()) {
      if (others.includes(file)) continue;
      for (const { description: what, data, valid } of tests) {
        const verdict = isValidText(JSON.stringify(data), schema);
        if (verdict !== null) expect(verdict, `${file}: ${description}: ${what}`).toBe(valid);
      }
    }
  });
});
