// From an unknown body to a typed request: refuses what is not supported, names what is not known, and says
// which parameter is wrong.

import type { z } from 'zod';
import { ApiError, unsupported } from '../errors.ts';

/** Why a value cannot be served, or undefined where it changes nothing. */
export type Refusal = (value: unknown, body: Readonly<Record<string, unknown>>) => string | undefined;

export interface BodyRules<Schema extends z.ZodObject> {
  readonly schema: Schema;
  /** Known, and without effect here: for the caller's own records. */
  readonly noOps: readonly string[];
  /** Known elsewhere, and not supported here. */
  readonly refused: Readonly<Record<string, Refusal>>;
  /** Parameters that may be long lists of token ids; their schemas look at them fast. */
  readonly tokenLists?: readonly string[];
}

/**
 * Values in a body, lists of token ids aside. A schema takes microseconds for each, and more for a wrong one, so
 * that without a bound one body could hold everybody up for seconds.
 */
const MAX_VALUES = 65_536;

export interface ParsedBody<Body> {
  readonly body: Body;
  readonly unknown: readonly string[];
}

export function parseBody<Schema extends z.ZodObject>(
  rules: BodyRules<Schema>,
  raw: unknown,
): ParsedBody<z.infer<Schema>> {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw new ApiError(400, 'the body must be a JSON object', { code: 'invalid_type' });
  }
  // Clients send null for what they leave out.
  const given = Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== null));
  checkSize(given, new Set(rules.tokenLists));
  for (const [name, refusal] of Object.entries(rules.refused)) {
    const problem = given[name] === undefined ? undefined : refusal(given[name], given);
    if (problem !== undefined) throw unsupported(name, problem);
  }
  const result = rules.schema.safeParse(given);
  if (!result.success) throw issueError(result.error, given);
  const known = new Set([...Object.keys(rules.schema.shape), ...rules.noOps, ...Object.keys(rules.refused)]);
  return { body: result.data, unknown: Object.keys(given).filter((name) => !known.has(name)) };
}

/** The value of the header that names unknown parameters. */
export function unknownWarning(names: readonly string[]): string {
  const listed = names.slice(0, 16).map((name) => name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?'));
  return `unknown parameters were ignored: ${listed.join(', ')}${names.length > 16 ? ', ...' : ''}`;
}

function checkSize(body: Readonly<Record<string, unknown>>, exempt: ReadonlySet<string>): void {
  const open: object[] = [Object.fromEntries(Object.entries(body).filter(([name]) => !exempt.has(name)))];
  let count = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const values = Object.values(next);
    count += values.length;
    if (count > MAX_VALUES) {
      throw new ApiError(400, `the body has more than ${MAX_VALUES} values`, { code: 'request_too_large' });
    }
    for (const value of values) if (typeof value === 'object' && value !== null) open.push(value);
  }
}

function issueError(error: z.ZodError, body: object): ApiError {
  const [issue] = error.issues;
  if (issue === undefined) return new ApiError(400, 'the body is not valid', { code: 'invalid_value' });
  const param = pathOf(issue.path);
  if (valueAt(body, issue.path) === undefined) {
    return new ApiError(400, `${param}: is missing`, { param, code: 'missing_required_parameter' });
  }
  const code = issue.code === 'invalid_type' ? 'invalid_type' : 'invalid_value';
  return new ApiError(400, `${param}: ${issue.message}`, { param, code });
}

function valueAt(body: object, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<PropertyKey, unknown>)?.[step], body);
}

/** `messages[0].content`, as OpenAI writes it. */
function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map((step, at) => (typeof step === 'number' ? `[${step}]` : `${at === 0 ? '' : '.'}${String(step)}`))
    .join('');
}
