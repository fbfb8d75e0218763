// The ids of items, which tell by their beginning what they are of.

import { randomBytes } from 'node:crypto';
import type { ConversationItem } from './items.ts';

const marks: Readonly<Record<ConversationItem['type'], string>> = {
  message: 'msg_',
  function_call: 'fc_',
  function_call_output: 'fco_',
  reasoning: 'rs_',
};

export function newItemId(type: ConversationItem['type']): string {
  return marks[type] + randomBytes(16).toString('hex');
}
