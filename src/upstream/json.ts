// Reads what an upstream sends, which may be anything.

import { UpstreamError } from './upstream-error.ts';

/** Of what an upstream says is wrong. */
export const MOST_MESSAGE_CHARACTERS = 500;

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function parseObject(text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid('something that is not JSON');
  }
  if (!isObject(value)) throw invalid('something that is no object');
  return value;
}

/** Undefined for what is no text, and for an empty one. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export function objectsOf(value: unknown, what: string): readonly JsonObject[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every(isObject)) return value;
  throw invalid(`${what} that are no list of objects`);
}

/** A count of tokens; anything else counts as not said. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

export function invalid(what: string): UpstreamError {
  return new UpstreamError('invalid', `sent ${what}`);
}

/** What the body of an error says, in the shapes that servers give it. */
export function errorOf(body: unknown): { message?: string; code?: string; param?: string } {
  const given = isObject(body) && 'error' in body ? body.error : body;
  if (typeof given === 'string') return { message: given };
  if (!isObject(given)) return {};
  const message = textOf(given.message) ?? textOf(given.detail);
  const code = textOf(given.code) ?? textOf(given.type) ?? numberOf(given.code)?.toString();
  const param = textOf(given.param);
  return {
    ...(message === undefined ? {} : { message }),
    ...(code === undefined ? {} : { code }),
    ...(param === undefined ? {} : { param }),
  };
}

/** An error in the midst of an answer. */
export function brokenOff(body: unknown): UpstreamError {
  const { message = 'something went wrong' } = errorOf(body);
  return new UpstreamError('failed', `broke the answer off: ${message.slice(0, MOST_MESSAGE_CHARACTERS)}`);
}
