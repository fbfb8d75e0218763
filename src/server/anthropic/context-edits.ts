// `context_management`: what of a conversation the model is spared, old results of tools and old thinking, once there is much
// of it. The client's own messages stay as they are; the answer says what was cleared.

import { z } from 'zod';
import type { ChatBody } from '../openai/schemas/chat.ts';

const DEFAULT_TRIGGER_TOKENS = 100_000;
const DEFAULT_KEPT_USES = 3;
const CLEARED = '[This result was cleared to save room.]';

const counted = <Type extends string>(...types: [Type, ...Type[]]) =>
  z.strictObject({ type: z.enum(types), value: z.int().min(0) });

const clearToolUses = z.strictObject({
  type: z.literal('clear_tool_uses_20250919'),
  trigger: counted('input_tokens', 'tool_uses').nullish(),
  keep: counted('tool_uses').nullish(),
  clear_at_least: counted('input_tokens').nullish(),
  exclude_tools: z.array(z.string()).nullish(),
  clear_tool_inputs: z.union([z.boolean(), z.array(z.string())]).nullish(),
});

const clearThinking = z.strictObject({
  type: z.literal('clear_thinking_20251015'),
  keep: z
    .union([z.literal('all'), z.strictObject({ type: z.literal('all') }), counted('thinking_turns')])
    .nullish(),
});

export const contextManagement = z
  .strictObject({
    edits: z
      .array(
        z.discriminatedUnion('type', [clearToolUses, clearThinking], {
          error: 'only clear_tool_uses_20250919 and clear_thinking_20251015 are possible',
        }),
      )
      .refine(
        (edits) => new Set(edits.map(({ type }) => type)).size === edits.length,
        'has more than one edit of a type',
      )
      .nullish(),
  })
  .meta({ description: 'What of the conversation is cleared for the model, and when.' });

type Edit = NonNullable<z.infer<typeof contextManagement>['edits']>[number];
type Message = ChatBody['messages'][number];
type Count = (messages: Message[]) => Promise<number>;

interface EditedContext {
  readonly messages: Message[];
  readonly report: { readonly applied_edits: readonly object[] };
}

/** Counts each list of messages once, as long as it stays the same list. */
export function countedOnce(count: Count): Count {
  const counts = new Map<Message[], Promise<number>>();
  return (messages) => {
    const tokens = counts.get(messages) ?? count(messages);
    counts.set(messages, tokens);
    return tokens;
  };
}

/** `countTokens`: how many tokens a prompt of these messages has. */
export async function editContext(
  edits: readonly Edit[],
  given: Message[],
  countTokens: Count,
): Promise<EditedContext> {
  const count = countedOnce(countTokens);
  const applied: object[] = [];
  let messages = given;
  for (const edit of edits) {
    const done =
      edit.type === 'clear_tool_uses_20250919'
        ? await withoutResults(edit, messages, count)
        : await withoutThinking(edit, messages, count);
    if (done === undefined) continue;
    messages = done.messages;
    applied.push({ type: edit.type, ...done.report });
  }
  return { messages, report: { applied_edits: applied } };
}

interface Done {
  readonly messages: Message[];
  readonly report: object;
}

async function withoutResults(
  edit: Extract<Edit, { type: 'clear_tool_uses_20250919' }>,
  given: Message[],
  count: Count,
): Promise<Done | undefined> {
  const { trigger, keep, clear_at_least: least, exclude_tools: excluded, clear_tool_inputs: inputs } = edit;
  const uses = given.filter(({ role }) => role === 'tool');
  const before = await count(given);
  const { type = 'input_tokens', value = DEFAULT_TRIGGER_TOKENS } = trigger ?? {};
  if ((type === 'tool_uses' ? uses.length : before) <= value) return undefined;
  const clearable = uses.filter(({ name }) => !excluded?.includes(name ?? ''));
  const gone = new Set(
    clearable.slice(0, Math.max(0, clearable.length - (keep?.value ?? DEFAULT_KEPT_USES))),
  );
  const ids = new Set([...gone].map(({ tool_call_id: id }) => id));
  const clearsInput = (name: unknown) =>
    inputs === true || (Array.isArray(inputs) && inputs.includes(String(name)));
  const messages = given.map((message): Message => {
    if (gone.has(message)) return { ...message, content: CLEARED };
    const { tool_calls: calls } = message;
    if (!calls || !inputs) return message;
    const cleared = calls.map((call) => {
      const own = call.function as { readonly name?: unknown };
      return ids.has(call.id as string) && clearsInput(own.name)
        ? { ...call, function: { ...own, arguments: {} } }
        : call;
    });
    return { ...message, tool_calls: cleared };
  });
  const tokens = gone.size === 0 ? 0 : before - (await count(messages));
  if (tokens <= 0 || tokens < (least?.value ?? 0)) return undefined;
  return { messages, report: { cleared_tool_uses: gone.size, cleared_input_tokens: tokens } };
}

async function withoutThinking(
  { keep }: Extract<Edit, { type: 'clear_thinking_20251015' }>,
  given: Message[],
  count: Count,
): Promise<Done | undefined> {
  if (keep === 'all' || keep?.type === 'all') return undefined;
  const turns = given.filter(({ reasoning_content: text }) => text !== undefined);
  const gone = new Set(turns.slice(0, Math.max(0, turns.length - (keep?.value ?? 1))));
  if (gone.size === 0) return undefined;
  const messages = given.map((message): Message => {
    if (!gone.has(message)) return message;
    const { reasoning_content: _, ...rest } = message;
    return rest;
  });
  const tokens = (await count(given)) - (await count(messages));
  return {
    messages,
    report: { cleared_thinking_turns: gone.size, cleared_input_tokens: Math.max(0, tokens) },
  };
}
