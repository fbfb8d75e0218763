// Prompts on the wire: texts, token ids, both in one sequence, and lists of these, as OpenAI and llama-server take them.

import { z } from 'zod';
import type { PromptInput } from '../../../generation/prompt.ts';

/** `content` has parts of type text alone. */
type PromptObject =
  | { readonly prompt_string: string }
  | { readonly content: readonly { readonly type: 'text'; readonly text: string }[] };

export type OnePrompt = string | PromptObject | readonly (string | number)[];

export type WirePrompt = OnePrompt | readonly OnePrompt[];

const isText = (value: unknown): value is string => typeof value === 'string';
const isTokenList = (value: unknown) => Array.isArray(value) && value.every(Number.isInteger);

export function isTokenIds(value: unknown): value is readonly number[] {
  return isTokenList(value) && (value as number[]).every((id) => id >= 0);
}

/** Ids and texts in one sequence. A list of texts alone is several prompts. */
function isSequence(value: unknown): value is readonly (string | number)[] {
  if (!Array.isArray(value)) return false;
  return value.some(Number.isInteger)
    ? value.every((one) => isText(one) || Number.isInteger(one))
    : value.length === 0;
}

function isPromptObject(value: unknown): value is PromptObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { prompt_string: text, content, ...rest } = value as Record<string, unknown>;
  if (Object.keys(rest).length > 0 || (text === undefined) === (content === undefined)) return false;
  return text === undefined ? Array.isArray(content) && content.every(isTextPart) : isText(text);
}

function isTextPart(value: unknown): boolean {
  const { type, text } = (value ?? {}) as Record<string, unknown>;
  return type === 'text' && isText(text);
}

const isOnePrompt = (value: unknown): value is OnePrompt =>
  isText(value) || isSequence(value) || isPromptObject(value);

/** Checked by hand, because a prompt may be a list of a million ids. */
function isPrompt(value: unknown): value is WirePrompt {
  if (Array.isArray(value) && value.length === 0) return false;
  return isOnePrompt(value) || (Array.isArray(value) && value.every(isOnePrompt));
}

export const tokenListJson = { type: 'array', items: { type: 'integer', minimum: 0 } };
const sequenceJson = {
  type: 'array',
  items: { anyOf: [{ type: 'integer', minimum: 0 }, { type: 'string' }] },
};
const objectJson = {
  type: 'object',
  properties: { prompt_string: { type: 'string' } },
  required: ['prompt_string'],
};

export const promptField = (description: string) =>
  z
    .custom<WirePrompt>(
      isPrompt,
      'must be a text, a list of texts, a list of token ids, or a list of such lists, and not empty',
    )
    .meta({
      description,
      anyOf: [
        { type: 'string' },
        { type: 'array', items: { anyOf: [{ type: 'string' }, sequenceJson, objectJson] } },
        sequenceJson,
        objectJson,
      ],
    });

export function splitPrompt(prompt: WirePrompt): readonly OnePrompt[] {
  return isOnePrompt(prompt) ? [prompt] : prompt;
}

export function promptInput(prompt: OnePrompt, ending: { readonly eos?: true } = {}): PromptInput {
  const text = textOf(prompt);
  if (text !== undefined) return { kind: 'text', text, ...ending };
  const pieces = prompt as readonly (string | number)[];
  if (isTokenList(pieces)) return { kind: 'ids', ids: pieces as readonly number[] };
  return { kind: 'pieces', pieces, ...ending };
}

/** Undefined where the prompt has token ids. */
export function textOf(prompt: OnePrompt): string | undefined {
  if (isText(prompt)) return prompt;
  if (Array.isArray(prompt)) return undefined;
  const given = prompt as PromptObject;
  return 'prompt_string' in given ? given.prompt_string : given.content.map(({ text }) => text).join('');
}

export function isEmptyPrompt(prompt: OnePrompt): boolean {
  return (textOf(prompt) ?? (prompt as readonly unknown[])).length === 0;
}
