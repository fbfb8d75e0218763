// Random schemas: what is sampled is valid, what is valid is accepted, and nothing else is. Another validator is the judge.

import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { checkBytes } from '../../src/grammar/check-text.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import { GrammarError } from '../../src/grammar/grammar-error.ts';
import { SchemaDocument } from '../../src/grammar/json/schema-document.ts';
import { isValid as isValidHere } from '../../src/grammar/json/validate.ts';
import { SharedMasks } from '../../src/grammar/masks.ts';
import { Grammar, Matcher } from '../../src/grammar/matcher.ts';
import type { GrammarTables } from '../../src/grammar/tables.ts';
import { vocabularyTables } from '../../src/grammar/vocabulary.ts';
import { openText } from '../../src/text/open-text.ts';
import { openModelFiles } from '../../src/weights/open-model.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Random, SchemaMaker, seededRandom } from '../support/random-schemas.ts';
import { cases } from '../support/thorough.ts';

/** `CHAIRLIFT_SCHEMAS=10000 npx vitest run test/property/schemas.test.ts` takes a quarter of an hour. */
const SCHEMAS = Number(process.env.CHAIRLIFT_SCHEMAS ?? cases(100, 0.5));
const FIRST_SEED = Number(process.env.CHAIRLIFT_FIRST_SEED ?? 1);
const DOCUMENTS = 8;
const MAX_DRAWN = 1500;
/** More properties have too many orders to try them all. */
const MAX_ORDERED = 6;

const files = openModelFiles(embeddedModelPath);
const { tokenizer } = openText(files);
files.weights.close();
const vocabulary = vocabularyTables(tokenizer);
const shared = new SharedMasks(2000);

function compiled(schema: unknown, lenient?: 'closest'): GrammarTables | GrammarError {
  try {
    return compileRules(
      rulesOf({ kind: 'schema', schema, ...(lenient && { lenient }) }, () => undefined).rules,
    );
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
}

/** Where a schema cannot be enforced, every valid document is allowed all the same; how many there were. */
function closestAllows(schema: unknown, make: () => unknown, validate: (value: unknown) => boolean): number {
  const tables = compiled(schema, 'closest');
  // Of a schema that nothing fits, no other closest grammar is left.
  if (tables instanceof GrammarError) expect(tables.problem, JSON.stringify(schema)).toBe('empty');
  let valid = 0;
  for (let at = 0; at < DOCUMENTS; at++) {
    const document = make();
    const text = JSON.stringify(document);
    if (isBeyondJudging(schema, text) || hasManyNames(document) || !validate(document)) continue;
    const accepted =
      !(tables instanceof GrammarError) &&
      (checkBytes(tables, text).accepted || isOnlyOutOfOrder(tables, document));
    expect(accepted, `${JSON.stringify(schema)}\n${text}`).toBe(true);
    valid++;
  }
  return valid;
}

/** An answer of a model that knows nothing; undefined where it does not come to an end. */
function sampled(tables: GrammarTables, random: Random): string | undefined {
  const matcher = new Matcher(new Grammar(tables, vocabulary, shared), true);
  const ids: number[] = [];
  while (ids.length < MAX_DRAWN && !matcher.ended) {
    const mask = matcher.mask();
    const allowed: number[] = [];
    for (let token = 0; token < tokenizer.vocabSize; token++) {
      if ((((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1) allowed.push(token);
    }
    // Late in an answer, what is short and ends things.
    const late = ids.length > 300 ? allowed.filter((id) => /^[\]}",]+$/.test(tokenizer.decode([id]))) : [];
    const pool = late.length > 0 && random(3) > 0 ? late : allowed;
    const token = pool[random(pool.length)] as number;
    if (tokenizer.eosIds.has(token)) break;
    expect(matcher.accept(token)).toBe(true);
    ids.push(token);
  }
  return matcher.complete
    ? Buffer.concat(ids.map((id) => tokenizer.tokenBytes(id))).toString('utf8')
    : undefined;
}

/** Beyond 2^53 the judge divides with rounding errors, and takes 1e+21 for 1. */
function isBeyondJudging(schema: unknown, text: string): boolean {
  return /e\+|\d{16}/.test(text) && JSON.stringify(schema).includes('multipleOf');
}

/** Whether the same document is accepted with its properties in another order. */
function isOnlyOutOfOrder(tables: GrammarTables, document: unknown): boolean {
  return orders(document)
    .slice(0, 2000)
    .some((other) => checkBytes(tables, other).accepted);
}

function hasManyNames(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const isMany = !Array.isArray(value) && Object.keys(value).length > MAX_ORDERED;
  return isMany || Object.values(value).some(hasManyNames);
}

/** As texts: an object of JavaScript has names that are numbers first. */
function orders(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value)];
  if (Array.isArray(value)) return joined(value.map(orders)).map((items) => `[${items}]`);
  return permutations(Object.entries(value)).flatMap((entries) => {
    const parts = entries.map(([name, one]) =>
      orders(one).map((other) => `${JSON.stringify(name)}:${other}`),
    );
    return joined(parts)
      .slice(0, 100)
      .map((members) => `{${members}}`);
  });
}

/** One of each list, with commas between. */
function joined(lists: readonly (readonly string[])[]): string[] {
  return lists.reduce<string[]>(
    (texts, list, at) =>
      texts.flatMap((text) => list.map((one) => (at === 0 ? one : `${text},${one}`))).slice(0, 2000),
    [''],
  );
}

function permutations<Value>(values: readonly Value[]): Value[][] {
  if (values.length > MAX_ORDERED) return [[...values]];
  if (values.length < 2) return [[...values]];
  return values.flatMap((first, at) =>
    permutations(values.filter((_, other) => other !== at)).map((rest) => [first, ...rest]),
  );
}

describe('a random schema', () => {
  it(`allows what is valid and nothing else (${SCHEMAS} schemas)`, { timeout: 3_600_000 }, () => {
    const count = { refused: 0, closest: 0, sampled: 0, valid: 0, invalid: 0 };
    const refusals = new Map<string, number>();
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEMAS; seed++) {
      const random = seededRandom(seed);
      const maker = new SchemaMaker(random);
      const schema = maker.schema(3);
      const ajv = new Ajv2020({ strict: false, unicodeRegExp: true, ownProperties: true });
      addFormats.default(ajv);
      const validate = ajv.compile(schema as object);
      const tables = compiled(schema);
      const where = () => `seed ${seed}: ${JSON.stringify(schema)}`;
      if (tables instanceof GrammarError) {
        count.refused++;
        const why = tables.keyword ?? tables.message;
        refusals.set(why, (refusals.get(why) ?? 0) + 1);
        if (tables.problem === 'empty') {
          for (let at = 0; at < DOCUMENTS; at++)
            expect(validate(maker.document(schema, 3)), where()).toBe(false);
        } else count.closest += closestAllows(schema, () => maker.document(schema, 3), validate);
        continue;
      }
      const own = new SchemaDocument(schema);
      const answer = sampled(tables, random);
      if (answer !== undefined && !isBeyondJudging(schema, answer)) {
        count.sampled++;
        expect(validate(JSON.parse(answer)), `${where()}\ndrawn ${answer}`).toBe(true);
      }
      for (let at = 0; at < DOCUMENTS; at++) {
        const document = maker.document(schema, 3);
        const text = JSON.stringify(document, null, at % 3 === 0 ? 2 : 0);
        if (isBeyondJudging(schema, text)) continue;
        if (hasManyNames(document)) continue;
        const isValid = validate(JSON.parse(text));
        expect(isValidHere(JSON.parse(text), own.root, own), `our validator: ${where()}\n${text}`).toBe(
          isValid,
        );
        count[isValid ? 'valid' : 'invalid']++;
        const accepted =
          checkBytes(tables, text).accepted || (isValid && isOnlyOutOfOrder(tables, JSON.parse(text)));
        expect(accepted, `${where()}\n${text}`).toBe(isValid);
      }
    }
    console.log(JSON.stringify({ ...count, refusals: Object.fromEntries(refusals) }));
    expect(count.sampled).toBeGreaterThan(0.6 * SCHEMAS);
    expect(count.valid).toBeGreaterThan(SCHEMAS);
    expect(count.invalid).toBeGreaterThan(SCHEMAS);
  });
});
