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
}

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
  for (const [name, refusal] of Object.entries(rules.refused)) {
    const problem = given[name] === undefined ? undefined : refusal(given[name], given);
    if (problem !== undefined) throw unsupported(name, problem);
  }
  const result = rules.schema.safeParse(given);
  if (!result.success) throw issueError(result.error);
  const known = new Set([...Object.keys(rules.schema.shape), ...rules.noOps, ...Object.keys(rules.refused)]);
  return { body: result.data, unknown: Object.keys(given).filter((name) => !known.has(name)) };
}

/** The value of the header that names unknown parameters. */
export function unknownWarning(names: readonly string[]): string {
  const listed = names.slice(0, 16).map((name) => name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?'));
  return `unknown parameters were ignored: ${listed.join(', ')}${names.length > 16 ? ', ...' : ''}`;
}

function issueError(error: z.ZodError): ApiError {
  const [issue] = error.issues;
  if (issue === undefined) return new ApiError(400, 'the body is not valid', { code: 'invalid_value' });
  const param = pathOf(issue.path);
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  const code = missing
    ? 'missing_required_parameter'
    : issue.code === 'invalid_type'
      ? 'invalid_type'
      : 'invalid_value';
  const problem = missing ? 'is missing' : issue.message;
  return new ApiError(400, param === '' ? problem : `${param}: ${problem}`, {
    param: param || undefined,
    code,
  });
}

/** `messages[0].content`, as OpenAI writes it. */
function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map((step, at) => (typeof step === 'number' ? `[${step}]` : `${at === 0 ? '' : '.'}${String(step)}`))
    .join('');
}
