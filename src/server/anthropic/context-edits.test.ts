// Clearing of old results and thinking: what goes and what stays, and through the whole server what is reported.

import { describe, expect, it } from 'vitest';
import { sharedServer } from '../../../test/support/keyed-server.ts';
import { messageAnswerSchema } from './answers.ts';
import { contextManagement, editContext } from './context-edits.ts';

type Messages = Parameters<typeof editContext>[1];

const { post } = sharedServer();
/** A token a character. */
const count = async (messages: Messages) => JSON.stringify(messages).length;
const long = 'word '.repeat(30);

const call = (n: number, name = 'find') => ({
  role: 'assistant' as const,
  content: '',
  reasoning_content: `thought ${n}`,
  tool_calls: [{ id: `c${n}`, type: 'function', function: { name, arguments: { n } } }],
});
const result = (n: number, name = 'find') => ({
  role: 'tool' as const,
  tool_call_id: `c${n}`,
  name,
  content: [{ type: 'text', text: `${long}${n}` }],
});
const talk: Messages = [
  { role: 'user', content: 'Go.' },
  ...[1, 2, 3, 4].flatMap((n) => [
    call(n, n === 2 ? 'keepme' : 'find'),
    result(n, n === 2 ? 'keepme' : 'find'),
  ]),
];

const edited = async (edit: object) => {
  const { edits } = contextManagement.parse({ edits: [edit] });
  return editContext(edits ?? [], talk, count);
};
const cleared = (messages: Messages) =>
  messages.flatMap(({ tool_call_id: id, content }) =>
    typeof content === 'string' && content.includes('cleared') ? [id] : [],
  );

describe('old results of tools', () => {
  const type = 'clear_tool_uses_20250919';
  const always = { type, trigger: { type: 'tool_uses', value: 1 } };

  it('go but for the last ones and those of excluded tools, and the report has the difference', async () => {
    const { messages, report } = await edited({
      ...always,
      keep: { type: 'tool_uses', value: 1 },
      exclude_tools: ['keepme'],
    });
    expect(cleared(messages)).toEqual(['c1', 'c3']);
    const tokens = (await count(talk)) - (await count(messages));
    expect(report.applied_edits).toEqual([{ type, cleared_tool_uses: 2, cleared_input_tokens: tokens }]);
    expect(messages[1]).toEqual(talk[1]);
  });

  it('stay below the trigger, where three are kept, and where too little would be cleared', async () => {
    for (const edit of [
      { type },
      { type, trigger: { type: 'input_tokens', value: 1e6 } },
      { ...always, keep: { type: 'tool_uses', value: 4 } },
      { ...always, clear_at_least: { type: 'input_tokens', value: 1e6 } },
    ]) {
      expect(await edited(edit)).toEqual({ messages: talk, report: { applied_edits: [] } });
    }
    expect(cleared((await edited(always)).messages)).toEqual(['c1']);
  });

  it('take the inputs of their calls along where that is asked', async () => {
    const inputs = async (clear_tool_inputs: unknown) => {
      const { messages } = await edited({
        ...always,
        keep: { type: 'tool_uses', value: 2 },
        clear_tool_inputs,
      });
      const calls = messages.flatMap(({ tool_calls: one }) => one ?? []);
      return calls.map((one) => (one.function as { arguments: { n?: number } }).arguments.n);
    };
    expect(await inputs(true)).toEqual([undefined, undefined, 3, 4]);
    expect(await inputs(['keepme'])).toEqual([1, undefined, 3, 4]);
    expect(await inputs(false)).toEqual([1, 2, 3, 4]);
  });
});

describe('old thinking', () => {
  it('goes but for the last turns', async () => {
    const type = 'clear_thinking_20251015';
    const thoughts = ({ messages }: { messages: Messages }) =>
      messages.flatMap((one) => one.reasoning_content ?? []);
    expect(thoughts(await edited({ type }))).toEqual(['thought 4']);
    const two = await edited({ type, keep: { type: 'thinking_turns', value: 2 } });
    expect(thoughts(two)).toEqual(['thought 3', 'thought 4']);
    expect(two.report.applied_edits).toMatchObject([{ type, cleared_thinking_turns: 2 }]);
    expect(thoughts(await edited({ type, keep: 'all' }))).toHaveLength(4);
  });
});

describe('edits', () => {
  const uses = { type: 'clear_tool_uses_20250919' };
  const thinking = { type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 1 } };

  it('are at most one of each type', async () => {
    const refused = await post('/v1/messages', {
      max_tokens: 4,
      messages: [{ role: 'user', content: 'Go.' }],
      context_management: { edits: [uses, thinking, uses] },
    });
    expect(refused.statusCode).toBe(400);
    expect(refused.json().error.message).toContain('context_management.edits: has more than one edit');
  });

  it('count a conversation once while nothing changes', async () => {
    const counted: Messages[] = [];
    const { edits } = contextManagement.parse({ edits: [uses, thinking] });
    const { messages } = await editContext(edits ?? [], talk, async (one) => counted.push(one));
    expect(counted).toEqual([talk, messages]);
  });
});

describe('a message with context_management', () => {
  const use = (n: number) => ({ type: 'tool_use', id: `toolu_${n}`, name: 'find', input: { n } });
  const messages = [
    { role: 'user', content: 'Go.' },
    ...[1, 2, 3].flatMap((n) => [
      { role: 'assistant', content: [use(n)] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: `toolu_${n}`, content: long }] },
    ]),
  ];
  const context_management = {
    edits: [
      {
        type: 'clear_tool_uses_20250919',
        trigger: { type: 'input_tokens', value: 100 },
        keep: { type: 'tool_uses', value: 1 },
      },
    ],
  };
  const body = { max_tokens: 4, messages, context_management, temperature: 0 };

  it('has the prompt that was left, and says what was cleared, whole, streamed and counted', async () => {
    const whole = messageAnswerSchema.parse((await post('/v1/messages', body)).json());
    const [edit] = whole.context_management?.applied_edits ?? [];
    expect(edit).toMatchObject({ type: 'clear_tool_uses_20250919', cleared_tool_uses: 2 });
    const { context_management: _, ...plain } = body;
    const counted = (await post('/v1/messages/count_tokens', plain)).json().input_tokens;
    const { input_tokens: left, context_management: original } = (
      await post('/v1/messages/count_tokens', body)
    ).json();
    expect(original).toEqual({ original_input_tokens: counted });
    expect(counted - left).toBe(edit?.cleared_input_tokens);
    expect(whole.usage.input_tokens + whole.usage.cache_read_input_tokens).toBe(left);
    const stream = await post('/v1/messages', { ...body, stream: true });
    expect(stream.body).toContain('"applied_edits":[{"type":"clear_tool_uses_20250919"');
  });
});
