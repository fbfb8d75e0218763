// Reasoning as Anthropic shows it: text with a signature, which clients send back with it. Where a client omits the
// text, the signature carries it, so that the next turn has it all the same.

import { createHash } from 'node:crypto';
import type { MessagesRequest } from './schema.ts';

const SEAL = 'sealed.';

interface Shown {
  readonly thinking: string;
  readonly signature: string;
}

export function shownThinking(reasoning: string, omitted: boolean): Shown {
  return omitted
    ? { thinking: '', signature: SEAL + Buffer.from(reasoning).toString('base64') }
    : { thinking: reasoning, signature: createHash('sha256').update(reasoning).digest('base64') };
}

export function reasoningOf({
  thinking,
  signature,
}: {
  thinking: string;
  signature?: string | null | undefined;
}): string {
  if (thinking !== '' || !signature?.startsWith(SEAL)) return thinking;
  return Buffer.from(signature.slice(SEAL.length), 'base64').toString('utf8');
}

export function omitsThinking({ thinking }: Pick<MessagesRequest, 'thinking'>): boolean {
  return thinking !== undefined && thinking.type !== 'disabled' && thinking.display === 'omitted';
}

/** Templates have one of two names for the switch, and a few have a budget. */
export function thinkingVariables(thinking: MessagesRequest['thinking']): Readonly<Record<string, unknown>> {
  if (thinking === undefined) return {};
  const on = thinking.type !== 'disabled';
  const budget = thinking.type === 'enabled' ? { thinking_budget: thinking.budget_tokens } : {};
  return { enable_thinking: on, thinking: on, ...budget };
}
