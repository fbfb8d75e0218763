// Pictures in the messages of a conversation, and text that spells what stands for one: it stays text.

import { type Detail, details } from '../images/detail.ts';
import type { ImagePromptSpec } from '../model/vision/image-prompt.ts';
import { type ChatMessage, type ContentPart, type Conversation, placeInRequest } from './chat-prompt.ts';
import { invalid } from './generation-error.ts';

export interface PicturePart {
  readonly url: string;
  readonly detail: Detail;
  /** What the client calls it. */
  readonly where: string;
}

export function isPicture({ type }: ContentPart): boolean {
  return type === 'image_url';
}

export function hasPictures(messages: readonly ChatMessage[]): boolean {
  return messages.some(showsPicture);
}

function showsPicture({ content }: ChatMessage): boolean {
  return Array.isArray(content) && content.some(isPicture);
}

/** In their order. */
export function pictureParts(messages: readonly ChatMessage[]): PicturePart[] {
  return messages.flatMap(({ content }, at) =>
    (Array.isArray(content) ? content : []).flatMap((part: ContentPart, index) =>
      isPicture(part) ? [picturePart(part, part[placeInRequest] ?? `messages[${at}].content[${index}]`)] : [],
    ),
  );
}

function picturePart({ image_url: given }: ContentPart, where: string): PicturePart {
  const { url, detail = 'auto' } = typeof given === 'string' ? { url: given } : (given ?? {});
  if (typeof url !== 'string') throw invalid(where, 'has no image_url.url');
  const known = details.find((one) => one === (detail ?? 'auto'));
  if (known === undefined) throw invalid(`${where}.detail`, `must be one of ${details.join(', ')}`);
  return { url, detail: known, where };
}

/** A noncharacter: no text has it, and tokenizers are told to leave it out. */
export const BREAKER = '\ufdd0';

/**
 * The conversation, with what stands for pictures taken apart wherever a text spells it: neither the template nor the tokenizer
 * takes it for a picture, and the model reads it as it is spelled.
 */
export function withPlainText(
  conversation: Conversation,
  { marker, text, reserved }: Pick<ImagePromptSpec, 'marker' | 'text' | 'reserved'>,
): Conversation {
  const { messages, tools, variables } = conversation;
  const all = [marker, text, ...reserved];
  const plain = <Value>(value: Value) => withPlainTexts(value, all) as Value;
  return {
    ...conversation,
    messages: messages.map((message) => plain(message)),
    ...(tools === undefined ? {} : { tools: plain(tools) }),
    ...(variables === undefined ? {} : { variables: plain(variables) }),
  };
}

/** The same of one text. */
export function plainText(
  given: string,
  { marker, text, reserved }: Pick<ImagePromptSpec, 'marker' | 'text' | 'reserved'>,
): string {
  return brokenUp(given, [marker, text, ...reserved]);
}

function withPlainTexts(value: unknown, reserved: readonly string[]): unknown {
  if (typeof value === 'string') return brokenUp(value, reserved);
  if (Array.isArray(value)) return value.map((one) => withPlainTexts(one, reserved));
  if (typeof value !== 'object' || value === null || isPicture(value as ContentPart)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withPlainTexts(one, reserved)]));
}

function brokenUp(text: string, reserved: readonly string[]): string {
  return reserved.reduce(
    (whole, one) =>
      whole.includes(one) ? whole.replaceAll(one, () => one.slice(0, 1) + BREAKER + one.slice(1)) : whole,
    text,
  );
}

/**
 * For templates that show no pictures in results of tools: these come in a message of the user's after the results, and a text
 * says so in their place.
 */
export function withPicturesAfterResults(messages: readonly ChatMessage[]): ChatMessage[] {
  const moved: ChatMessage[] = [];
  let waiting: ContentPart[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === 'tool' && showsPicture(message)) {
      const parts = message.content as readonly ContentPart[];
      waiting.push(...parts.filter(isPicture));
      const text = parts
        .map((part) => (isPicture(part) ? 'The image follows.' : (part.text ?? '')))
        .join('\n');
      moved.push({ ...message, content: text });
    } else moved.push(message);
    if (messages[at + 1]?.role === 'tool' || waiting.length === 0) continue;
    moved.push({ role: 'user', content: waiting });
    waiting = [];
  }
  return moved;
}
