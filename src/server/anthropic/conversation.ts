// Anthropic's messages as OpenAI's: results of calls become messages of their own, calls and reasoning become fields next to
// the text.

import { checkText, type TextLimits } from '../../generation/chat-prompt.ts';
import { badRequest } from '../http/errors.ts';
import { base64Image, type ImagePart, imageOf } from '../images/image-part.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type {
  AssistantBlock,
  ImageBlock,
  Message,
  MessagesRequest,
  ResultBlock,
  UserBlock,
} from './schema.ts';
import { spelled } from './sources.ts';
import { reasoningOf } from './thinking.ts';

type ChatMessage = ChatBody['messages'][number];

type TextPart = { readonly type: 'text'; readonly text: string };

type Placed<Block> = Block & { readonly where: string };

type Turn =
  | { readonly role: 'user'; readonly blocks: readonly Placed<UserBlock>[] }
  | { readonly role: 'assistant'; readonly blocks: readonly Placed<AssistantBlock>[] }
  | { readonly role: 'system'; readonly blocks: readonly Placed<TextPart>[] };

interface Conversation {
  readonly messages: ChatMessage[];
  readonly continues: boolean;
}

export function conversationOf(
  { system = [], messages }: Pick<MessagesRequest, 'system' | 'messages'>,
  limits: TextLimits,
): Conversation {
  const turns = turnsOf(messages);
  const names = new Map<string, string>();
  const written = turns.flatMap((turn): ChatMessage[] => {
    if (turn.role === 'user') return userMessages(turn.blocks, names, limits);
    if (turn.role === 'system') return [{ role: 'system', content: textParts(turn.blocks, limits) }];
    for (const block of turn.blocks) if (block.type === 'tool_use') names.set(block.id, block.name);
    return [assistantMessage(turn.blocks, limits)];
  });
  const opening = textParts(placed(system, 'system'), limits);
  const last = turns.at(-1);
  const call = last?.role === 'assistant' && last.blocks.find(({ type }) => type === 'tool_use');
  if (call) throw badRequest(call.where, 'the result of this call must follow');
  return {
    messages: opening.length === 0 ? written : [{ role: 'system', content: opening }, ...written],
    continues: last?.role === 'assistant',
  };
}

/** Consecutive messages of the same role are one turn. */
function turnsOf(messages: readonly Message[]): readonly Turn[] {
  const turns: Turn[] = [];
  for (const [at, { role, content }] of messages.entries()) {
    const blocks = placed<UserBlock | AssistantBlock>(content, `messages[${at}].content`);
    const before = turns.at(-1);
    const joins = before?.role === role;
    // The schema has checked that the role may have these blocks.
    const turn = { role, blocks: joins ? [...before.blocks, ...blocks] : blocks } as Turn;
    turns.splice(joins ? turns.length - 1 : turns.length, 1, turn);
  }
  return turns;
}

function placed<Block extends object>(blocks: readonly Block[], parameter: string): Placed<Block>[] {
  return blocks.map((block, at) => ({ ...block, where: `${parameter}[${at}]` }));
}

function userMessages(
  blocks: readonly Placed<UserBlock>[],
  names: ReadonlyMap<string, string>,
  limits: TextLimits,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let said: (Placed<TextPart> | ImagePart)[] = [];
  const flush = () => {
    if (said.length > 0) messages.push({ role: 'user', content: partsOf(said, limits) });
    said = [];
  };
  for (const block of blocks) {
    if (block.type === 'tool_result') {
      flush();
      messages.push(resultMessage(block, names, limits));
    } else said.push(asPart(block));
  }
  flush();
  return messages;
}

function resultMessage(
  block: Placed<Extract<UserBlock, { type: 'tool_result' }>>,
  names: ReadonlyMap<string, string>,
  limits: TextLimits,
): ChatMessage {
  const { tool_use_id: id, content, is_error: failed, where } = block;
  const name = names.get(id);
  if (name === undefined) {
    throw badRequest(`${where}.tool_use_id`, `there is no tool_use '${id.slice(0, 64)}' before it`);
  }
  const parts = partsOf(placed(content ?? [], `${where}.content`).map(asPart), limits);
  return {
    role: 'tool',
    tool_call_id: ownId(id),
    name,
    content: failed === true ? asError(parts) : parts,
  };
}

function asPart(block: Placed<ResultBlock>): Placed<TextPart> | ImagePart {
  if (block.type === 'text') return block;
  if (block.type === 'image') return imagePart(block);
  return { type: 'text', text: spelled(block), where: block.where };
}

/** Files were read before. */
function imagePart({ source, where }: Placed<ImageBlock>): ImagePart {
  switch (source.type) {
    case 'base64':
      return base64Image(source.data, where, source.media_type);
    case 'url':
      return imageOf(source.url, where);
    case 'file':
      throw badRequest(where, 'files cannot be read here; send the image itself');
  }
}

/** Templates have no other way to mark a failed call. */
function asError(parts: readonly (TextPart | ImagePart)[]): (TextPart | ImagePart)[] {
  const [first, ...rest] = parts;
  if (first?.type !== 'text') return [{ type: 'text', text: 'Error: ' }, ...parts];
  return [{ type: 'text', text: `Error: ${first.text}` }, ...rest];
}

function assistantMessage(blocks: readonly Placed<AssistantBlock>[], limits: TextLimits): ChatMessage {
  const texts = blocks.filter((block) => block.type === 'text');
  const calls = blocks.filter((block) => block.type === 'tool_use');
  const reasoning = blocks.flatMap((block) => (block.type === 'thinking' ? [reasoningOf(block)] : []));
  return {
    role: 'assistant',
    content: textParts(texts, limits),
    ...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.join('\n') }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, input }) => ({
            id: ownId(id),
            type: 'function',
            function: { name, arguments: input },
          })),
        }),
  };
}

function partsOf(
  parts: readonly (Placed<TextPart> | ImagePart)[],
  limits: TextLimits,
): (TextPart | ImagePart)[] {
  return parts.flatMap((part): (TextPart | ImagePart)[] =>
    part.type === 'image_url' ? [part] : textParts([part], limits),
  );
}

function textParts(blocks: readonly Placed<TextPart>[], limits: TextLimits): TextPart[] {
  return blocks.map(({ text, where }) => {
    checkText(where, text, limits);
    return { type: 'text', text };
  });
}

/** Clients expect ids of calls to begin like Anthropic's; templates want them as they were made. */
const MARK = 'toolu_';

export function shownId(id: string): string {
  return MARK + id;
}

function ownId(shown: string): string {
  return shown.startsWith(MARK) ? shown.slice(MARK.length) : shown;
}
