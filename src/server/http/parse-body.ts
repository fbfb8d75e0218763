// Parses an untyped body into a typed request: refuses unsupported parameters, collects unknown ones, and names the wrong
// parameter. How deep a body is nested is checked on its text: parsers, serializers and templates recurse into it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { ApiError, badRequest, unsupported, warnOfUnknown } from './errors.ts';
import { type KnownKeys, unknownKeys } from './unknown-keys.ts';

/** Why a value cannot be served, or undefined where it changes nothing. */
export type Refusal = (value: unknown, body: Readonly<Record<string, unknown>>) => string | undefined;

export interface BodyRules<Schema extends z.ZodObject> {
  readonly schema: Schema;
  readonly noOps: readonly string[];
  /** Known from other servers, and not supported here. */
  readonly refused: Readonly<Record<string, Refusal>>;
  /** Parameters that may be long lists of token ids, which their schemas check fast. */
  readonly tokenLists?: readonly string[];
  /** Rules for parameters that hold parameters of their own; their types are in the schema. */
  /** Keys that are known inside of parameters; others are told. */
  readonly knownKeys?: KnownKeys;
  readonly inner?: Readonly<Record<string, Pick<BodyRules<Schema>, 'noOps' | 'refused'> & InnerNames>>;
}

interface InnerNames {
  readonly known: readonly string[];
}

/**
 * The most values in a body, without lists of token ids. A schema takes microseconds for each, and more for a wrong one, so
 * that without a bound one body could block the event loop for seconds.
 */
const MAX_VALUES = 65_536;

interface ParsedBody<Body> {
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
  // Clients send null for parameters that they leave out.
  const given = withoutNulls(raw);
  const inner = Object.entries(rules.inner ?? {}).flatMap(([name, own]) => {
    const value = given[name];
    if (typeof value !== 'object' || Array.isArray(value)) return [];
    const values = withoutNulls(value as object);
    given[name] = values;
    return [{ ...own, values, prefix: `${name}.` }];
  });
  const outer = { ...rules, known: Object.keys(rules.schema.shape), values: given, prefix: '' };
  checkSize(given, new Set(rules.tokenLists));
  for (const level of [outer, ...inner]) checkRefused(level);
  const result = rules.schema.safeParse(given);
  if (!result.success) throw issueError(result.error, given);
  const inside = unknownKeys(rules.knownKeys ?? {}, given);
  return { body: result.data, unknown: [...[outer, ...inner].flatMap(unknownNames), ...inside] };
}

interface Level extends InnerNames {
  readonly noOps: readonly string[];
  readonly refused: Readonly<Record<string, Refusal>>;
  readonly values: Readonly<Record<string, unknown>>;
  readonly prefix: string;
}

function withoutNulls(given: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function checkRefused({ refused, values, prefix }: Level): void {
  for (const [name, refusal] of Object.entries(refused)) {
    const problem = values[name] === undefined ? undefined : refusal(values[name], values);
    if (problem !== undefined) throw unsupported(`${prefix}${name}`, problem);
  }
}

function unknownNames({ known, noOps, refused, values, prefix }: Level): string[] {
  const all = new Set([...known, ...noOps, ...Object.keys(refused)]);
  return Object.keys(values).flatMap((name) => (all.has(name) ? [] : [`${prefix}${name}`]));
}

export function rulesFor<Schema extends z.ZodObject>(schema: Schema): BodyRules<Schema> {
  return { schema, noOps: [], refused: {} };
}

export function readBody<Schema extends z.ZodObject>(
  rules: BodyRules<Schema>,
  request: Pick<FastifyRequest, 'body'>,
  reply: FastifyReply,
): z.infer<Schema> {
  const { body, unknown } = parseBody(rules, request.body);
  warnOfUnknown(reply, unknown);
  return body;
}

/** Parses the body of an administrator's request, in which an unknown parameter is an error. */
export function readExactBody<Schema extends z.ZodObject>(
  rules: BodyRules<Schema>,
  request: Pick<FastifyRequest, 'body'>,
): z.infer<Schema> {
  const { body, unknown } = parseBody(rules, request.body);
  const [name] = unknown;
  if (name !== undefined) throw badRequest(name, 'is not a known parameter', 'unknown_parameter');
  return body;
}

export function rulesNote({
  noOps,
  refused,
}: {
  readonly noOps: readonly string[];
  readonly refused: Readonly<Record<string, Refusal>>;
}): string {
  return [
    `Accepted without effect: ${noOps.join(', ')}.`,
    `Answered with 400 where they would change something: ${Object.keys(refused).join(', ')}.`,
    'Other parameters are ignored and named in the header x-chairlift-warning.',
    'The header x-chairlift-timeout-ms sets a deadline for the whole request.',
  ].join(' ');
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

const MAX_LEVELS = 1000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

export function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (OPENING.has(code)) {
      depth += 1;
      if (depth > MAX_LEVELS) return true;
    } else if (CLOSING.has(code)) depth -= 1;
  }
  return false;
}

function endOfString(text: string, opening: number): number {
  let at = text.indexOf('"', opening + 1);
  while (at >= 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at < 0 ? text.length : at;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}
