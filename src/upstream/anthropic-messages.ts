// OpenAI's messages as Anthropic's: results of calls are blocks of the user's turn, calls blocks of the assistant's.

import { isObject, type JsonObject, textOf } from './json.ts';

type Read =
  | { readonly ok: true; readonly system: string; readonly messages: readonly JsonObject[] }
  /** The place of what has no counterpart. */
  | { readonly ok: false; readonly field: string };

interface Turn {
  readonly role: 'user' | 'assistant';
  readonly content: JsonObject[];
}

class Unreadable extends Error {}

export function anthropicMessages(given: readonly JsonObject[]): Read {
  const first = given.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  const opening = first === -1 ? given : given.slice(0, first);
  const turns: Turn[] = [];
  for (const [at, message] of given.slice(opening.length).entries()) {
    const field = `messages[${opening.length + at}]`;
    try {
      const role = roleOf(message);
      const last = turns.at(-1);
      const content = blocksOf(message);
      // Turns alternate: what follows in the same role belongs to the same turn.
      if (last?.role === role) last.content.push(...content);
      else if (content.length > 0) turns.push({ role, content });
    } catch (error) {
      if (error instanceof Unreadable) return { ok: false, field };
      throw error;
    }
  }
  try {
    const system = opening.flatMap(({ content }) => textsOf(content)).join('\n\n');
    return { ok: true, system, messages: turns.map(({ role, content }) => ({ role, content })) };
  } catch (error) {
    if (error instanceof Unreadable) return { ok: false, field: 'messages' };
    throw error;
  }
}

function roleOf({ role }: JsonObject): Turn['role'] {
  if (role === 'assistant') return 'assistant';
  if (role === 'user' || role === 'tool') return 'user';
  throw new Unreadable();
}

function blocksOf({ role, content, refusal, tool_calls: calls, tool_call_id: id }: JsonObject): JsonObject[] {
  const parts = role === 'user' || role === 'tool' ? partsOf(content) : textsOf(content).map(textBlock);
  if (role === 'tool') return [{ type: 'tool_result', tool_use_id: id, content: parts }];
  const refused = textOf(refusal);
  return [
    ...parts,
    ...(refused === undefined ? [] : [{ type: 'text', text: refused }]),
    ...(Array.isArray(calls) ? calls.map(callOf) : []),
  ];
}

function textBlock(text: string): JsonObject {
  return { type: 'text', text };
}

function partsOf(content: unknown): JsonObject[] {
  if (!Array.isArray(content)) return textsOf(content).map(textBlock);
  return (content as JsonObject[]).flatMap((part) =>
    part.type === 'image_url' ? [imageOf(part.image_url)] : textsOf([part]).map(textBlock),
  );
}

function imageOf(image: unknown): JsonObject {
  const url = isObject(image) ? image.url : image;
  if (typeof url !== 'string') throw new Unreadable();
  const [, type, data] = /^data:([^;,]{1,64})[^,]{0,64};base64,([\s\S]*)$/i.exec(url) ?? [];
  return data === undefined
    ? { type: 'image', source: { type: 'url', url } }
    : { type: 'image', source: { type: 'base64', media_type: type, data } };
}

function callOf({ id, function: called }: JsonObject): JsonObject {
  const { name, arguments: text } = isObject(called) ? called : {};
  try {
    return { type: 'tool_use', id, name, input: JSON.parse(String(text)) };
  } catch {
    throw new Unreadable();
  }
}

/** Empty ones are left out, which Anthropic refuses. */
function textsOf(content: unknown): string[] {
  if (content === undefined || content === null) return [];
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content as JsonObject[]);
  return parts.flatMap((part) => {
    const text = part.type === 'refusal' ? part.refusal : part.text;
    if ((part.type !== 'text' && part.type !== 'refusal') || typeof text !== 'string') throw new Unreadable();
    return text === '' ? [] : [text];
  });
}
