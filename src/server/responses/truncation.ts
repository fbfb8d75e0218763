// `truncation: auto`: a conversation that is too long loses its oldest messages, as few as it must.

import type { ChatBody } from '../openai/schemas/chat.ts';

/** Where the client does not say how long the answer may be, it has this share of the context. */
const ANSWER_SHARE = 1 / 8;

interface Room {
  count(body: ChatBody): Promise<number>;
  /** Tokens of prompt and answer. */
  readonly tokens: number;
}

export async function truncated(body: ChatBody, { count, tokens }: Room): Promise<ChatBody> {
  const answer = body.max_completion_tokens ?? Math.ceil(tokens * ANSWER_SHARE);
  const fits = async (one: ChatBody) => (await count(one)) + Math.min(answer, tokens - 1) <= tokens;
  if (await fits(body)) return body;
  const bodies = cutsOf(body.messages).map((messages) => ({ ...body, messages }));
  let [low, high] = [0, bodies.length - 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (await fits(bodies[middle] as ChatBody)) high = middle;
    else low = middle + 1;
  }
  return bodies[high] ?? body;
}

/** Ever fewer of the messages: the system message stays, results go with their calls, and the last turn is never cut. */
function cutsOf(messages: ChatBody['messages']): ChatBody['messages'][] {
  const kept = messages[0]?.role === 'system' ? [messages[0]] : [];
  const rest = messages.slice(kept.length);
  const last = rest.findLastIndex(({ role }) => role === 'user');
  return rest.flatMap((message, at) =>
    at > 0 && at <= Math.max(last, 0) && message.role !== 'tool' ? [[...kept, ...rest.slice(at)]] : [],
  );
}
