// Converts the items of a conversation to messages of a chat. One turn of the model, with reasoning, text and calls, is
// several items, and one message.

import { placeInRequest } from '../../generation/chat-prompt.ts';
import { badRequest } from '../http/errors.ts';
import { imageOf } from '../images/image-part.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import { customArguments } from './custom-input.ts';
import {
  type ConversationItem,
  type InputImage,
  type ReasoningItem,
  type TextPart,
  textOf,
} from './items.ts';
import { modelName } from './tools.ts';

type Message = ChatBody['messages'][number];

interface Turn {
  readonly reasoning: string[];
  text: string | undefined;
  readonly calls: Readonly<Record<string, unknown>>[];
}

export function toMessages(items: readonly ConversationItem[], instructions: string | undefined): Message[] {
  const messages: (Message | Turn)[] = [];
  const names = new Map<string, string>();
  let turn: Turn | undefined;
  const begin = () => {
    turn = { reasoning: [], text: undefined, calls: [] };
    messages.push(turn);
    return turn;
  };
  /** The current turn, or a new one where the current one already has what must follow. */
  const before = (followed: (turn: Turn) => boolean) =>
    turn === undefined || followed(turn) ? begin() : turn;
  const isSaid = ({ text, calls }: Turn) => text !== undefined || calls.length > 0;
  for (const item of items) {
    if (item.type === 'reasoning') before(isSaid).reasoning.push(reasoningText(item));
    else if (item.type === 'function_call' || item.type === 'custom_tool_call') {
      const { call_id: id } = item;
      const name = modelName(item);
      const given = item.type === 'function_call' ? item.arguments : customArguments(item.input);
      names.set(id, name);
      before(() => false).calls.push({ id, type: 'function', function: { name, arguments: given } });
    } else if (item.type === 'message' && item.role === 'assistant')
      before(isSaid).text = textOf(item.content);
    else {
      turn = undefined;
      messages.push(
        item.type === 'message' ? plainMessage(item.role, item.content) : toolMessage(item, names),
      );
    }
  }
  return withInstructions(messages.flatMap(assistantMessage), instructions);
}

type Content = Parameters<typeof textOf>[0];

function plainMessage(role: Message['role'], content: Content): Message {
  if (role === 'user') return { role, content: seenContent(content) };
  const image = typeof content === 'string' ? undefined : content.find(isImage);
  if (image !== undefined) {
    throw badRequest(
      placeOf(image),
      `images are possible in messages of the user and outputs, not of ${role}`,
    );
  }
  return { role, content: textOf(content) };
}

/** Text between images stays between them. */
function seenContent(content: Content): Message['content'] {
  if (typeof content === 'string' || !content.some(isImage)) return textOf(content);
  return content.map((part) =>
    isImage(part)
      ? imageOf(part.image_url, placeOf(part), part.detail === 'original' ? 'high' : part.detail)
      : { type: 'text', text: textOf([part]) },
  );
}

function isImage(part: TextPart): part is InputImage {
  return part.type === 'input_image';
}

function placeOf(part: InputImage): string {
  return part[placeInRequest] ?? 'input';
}

function toolMessage(
  { type, call_id, output }: Extract<ConversationItem, { output: unknown }>,
  names: ReadonlyMap<string, string>,
): Message {
  const name = names.get(call_id);
  if (name === undefined) {
    throw badRequest('input', `there is no call before the ${type} with the call_id '${call_id}'`);
  }
  return { role: 'tool', tool_call_id: call_id, name, content: seenContent(output) };
}

function isTurn(message: Message | Turn): message is Turn {
  return !('role' in message);
}

function assistantMessage(message: Message | Turn): Message[] {
  if (!isTurn(message)) return [message];
  const { reasoning, text, calls } = message;
  if (text === undefined && calls.length === 0) return [];
  const thoughts = reasoning.filter((one) => one !== '').join('\n');
  return [
    {
      role: 'assistant',
      content: text ?? '',
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      // Templates have two names for it; those with the second take it only where there is no text.
      ...(thoughts === '' ? {} : { reasoning_content: thoughts, ...(text ? {} : { thinking: thoughts }) }),
    },
  ];
}

function reasoningText({ content, summary }: ReasoningItem): string {
  return (content.length > 0 ? content : summary).map(({ text }) => text).join('\n');
}

/** Many templates take one system message, at the beginning. */
function withInstructions(messages: readonly Message[], instructions: string | undefined): Message[] {
  const first = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  const leading = first < 0 ? messages : messages.slice(0, first);
  const texts = [
    ...(instructions === undefined ? [] : [instructions]),
    ...leading.map(({ content }) => content as string),
  ];
  const rest = messages.slice(leading.length);
  return texts.length === 0 ? rest : [{ role: 'system', content: texts.join('\n\n') }, ...rest];
}
