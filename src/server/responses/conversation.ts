// The input of a response: the conversation that it continues, and the items given now, each with an id.

import { ApiError, badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import {
  type ConversationItem,
  type GivenItem,
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
  { keyId }: Pick<Caller, 'keyId'>,
  kept: KeptResponses,
): Promise<Conversation> {
  const history = previous === undefined ? [] : await kept.history(keyId, previous);
  const ids = referencesIn(input);
  const referenced = ids.length === 0 ? undefined : await kept.items(keyId, ids);
  const given = input.map((item, at) => {
    if (item.type !== 'item_reference') return keptItem(item, `input[${at}]`);
    const found = referenced?.get(item.id);
    if (found !== undefined) return found;
    const message = `input[${at}]: there is no stored item '${item.id}'`;
    throw new ApiError(404, message, { param: `input[${at}]`, code: 'item_not_found' });
  });
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

/** The type of a text depends on its role, whichever type the client gave. */
function keptPart(
  part: { type: 'input_text' | 'output_text'; text: string } | { type: 'refusal'; refusal: string },
  produced: boolean,
): TextPart {
  if (part.type === 'refusal') return { type: part.type, refusal: part.refusal };
  const { text } = part;
  return produced
    ? { type: 'output_text', text, annotations: [], logprobs: [] }
    : { type: 'input_text', text };
}
