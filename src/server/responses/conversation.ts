// The input of a response: the conversation that it continues, and the items given now, each with an id.

import { placeInRequest } from '../../generation/chat-prompt.ts';
import { type FileReader, fileText } from '../files/file-text.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { imagePart } from '../images/image-part.ts';
import {
  type ConversationItem,
  type GivenItem,
  type GivenPart,
  type InputImage,
  type ItemReference,
  newItemId,
  type TextPart,
} from './items.ts';
import type { KeptResponses } from './kept-responses.ts';
import type { ResponsesBody } from './schema.ts';

export interface Conversation {
  readonly history: readonly ConversationItem[];
  readonly given: readonly ConversationItem[];
}

export async function readConversation(
  { input = [], previous_response_id: previous }: ResponsesBody,
  reader: FileReader,
  kept: KeptResponses,
): Promise<Conversation> {
  const { keyId } = reader.caller;
  const history = previous === undefined ? [] : await kept.history(keyId, previous);
  const ids = referencesIn(input);
  const referenced = ids.length === 0 ? undefined : await kept.items(keyId, ids);
  const given: ConversationItem[] = [];
  for (const [at, item] of input.entries()) {
    const where = `input[${at}]`;
    const found =
      item.type === 'item_reference'
        ? referenced?.get(item.id)
        : keptItem(await withTexts(item, where, reader), where);
    if (found === undefined) {
      const message = `${where}: there is no stored item '${(item as ItemReference).id}'`;
      throw new ApiError(404, message, { param: where, code: 'item_not_found' });
    }
    given.push(found);
  }
  if (history.length + given.length === 0)
    throw badRequest('input', 'is missing', 'missing_required_parameter');
  return { history, given };
}

/** An item that is named twice could make a small body a huge prompt. */
function referencesIn(input: readonly GivenItem[]): string[] {
  const ids = new Set<string>();
  for (const [at, item] of input.entries()) {
    if (item.type !== 'item_reference') continue;
    if (ids.has(item.id)) throw badRequest(`input[${at}].id`, `the item '${item.id}' is there twice`);
    ids.add(item.id);
  }
  return [...ids];
}

/** Files become texts, and are kept as such: the conversation goes on though its files are deleted. */
async function withTexts(
  item: Exclude<GivenItem, ItemReference>,
  where: string,
  reader: FileReader,
): Promise<Exclude<GivenItem, ItemReference>> {
  if (item.type === 'message')
    return { ...item, content: await partTexts(item.content, `${where}.content`, reader) };
  if (item.type !== 'function_call_output' && item.type !== 'custom_tool_call_output') return item;
  return { ...item, output: await partTexts(item.output, `${where}.output`, reader) };
}

async function partTexts(
  parts: readonly GivenPart[],
  where: string,
  reader: FileReader,
): Promise<GivenPart[]> {
  const texts: GivenPart[] = [];
  for (const [at, part] of parts.entries()) {
    if (part.type === 'input_image') {
      const place = `${where}[${at}]`;
      const { image_url: image } = await imagePart(reader, part, place);
      texts.push({
        type: 'input_image',
        image_url: image.url,
        detail: part.detail,
        [placeInRequest]: place,
      } as GivenPart);
    } else if (part.type !== 'input_file') texts.push(part);
    // Parts are joined without a space.
    else {
      const text = await fileText(reader, part, `${where}[${at}]`);
      texts.push({ type: 'input_text', text: `${at === 0 ? '' : '\n'}${text}\n` });
    }
  }
  return texts;
}

function keptItem(item: Exclude<GivenItem, ItemReference>, where: string): ConversationItem {
  const common = { id: item.id ?? newItemId(item.type), status: item.status ?? 'completed' } as const;
  switch (item.type) {
    case 'message': {
      const { type, role } = item;
      const content = item.content.map((part) => keptPart(part, role === 'assistant'));
      return { ...common, type, role, content };
    }
    case 'function_call': {
      const { type, call_id, name, namespace, arguments: given } = item;
      return { ...common, type, call_id, name, ...(namespace && { namespace }), arguments: given };
    }
    case 'custom_tool_call': {
      const { type, call_id, name, namespace, input } = item;
      return { ...common, type, call_id, name, ...(namespace && { namespace }), input };
    }
    case 'custom_tool_call_output':
    case 'function_call_output': {
      const { type, call_id, output } = item;
      return { ...common, type, call_id, output: output.map((part) => keptPart(part, false)) };
    }
    case 'reasoning': {
      const { type, encrypted_content: sealed } = item;
      const summary = item.summary ?? [];
      const content = item.content ?? [];
      if (sealed && summary.length + content.length === 0) {
        const problem = 'what another server has encrypted cannot be read here; leave the item out';
        throw badRequest(`${where}.encrypted_content`, problem);
      }
      return { ...common, type, summary, content };
    }
  }
}

function keptImage(part: Extract<GivenPart, { type: 'input_image' }>): TextPart {
  const { type, image_url: image, detail, [placeInRequest]: place } = part as InputImage;
  return {
    type,
    image_url: image,
    ...(detail == null ? {} : { detail }),
    ...(place === undefined ? {} : { [placeInRequest]: place }),
  };
}

/** The type of a text depends on its role, whichever type the client gave. */
function keptPart(part: GivenPart, produced: boolean): TextPart {
  if (part.type === 'refusal') return { type: part.type, refusal: part.refusal };
  if (part.type === 'input_file') throw new Error('a file has become a text before');
  if (part.type === 'input_image') return keptImage(part);
  const { text } = part;
  return produced
    ? { type: 'output_text', text, annotations: [], logprobs: [] }
    : { type: 'input_text', text };
}
