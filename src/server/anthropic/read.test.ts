import { describe, expect, it } from 'vitest';
import { type ApiError, toApiError } from '../http/errors.ts';
import { parseBody } from '../http/parse-body.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { defaultSettings } from '../settings.ts';
import { messagesKind, messagesProtocol } from './protocol.ts';
import { type MessagesBody, readMessages } from './read.ts';
import { countRules, messagesRules } from './schema.ts';
import { shownThinking } from './thinking.ts';

const incoming = { context: { settings: { ...defaultSettings, maxTextCharacters: 100 } } } as RequestContext;
const user = { role: 'user', content: 'Hello' };
const schema = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ name: 'weather', input_schema: schema }];
const text = (value: string) => ({ type: 'text', text: value });
const used = { type: 'tool_use', id: 'toolu_abc', name: 'weather', input: { city: 'Oslo' } };
const call = { id: 'abc', type: 'function', function: { name: 'weather', arguments: { city: 'Oslo' } } };

function read(body: object): MessagesBody {
  const given = { max_tokens: 10, messages: [user], ...body };
  return readMessages(parseBody(messagesRules, given).body, incoming);
}

function refusal(body: object): ApiError {
  try {
    messagesKind.prompts(read(body), incoming.context.settings);
  } catch (error) {
    return toApiError(error);
  }
  return expect.fail('it was not refused');
}

describe('messages', () => {
  it.each<[string, object, object[]]>([
    ['a text', { messages: [user] }, [{ role: 'user', content: [text('Hello')] }]],
    [
      'a system prompt, which comes first',
      { system: 'Be brief.', messages: [user] },
      [
        { role: 'system', content: [text('Be brief.')] },
        { role: 'user', content: [text('Hello')] },
      ],
    ],
    [
      'blocks with marks for a cache',
      {
        system: [{ ...text('Be brief.'), cache_control: { type: 'ephemeral' } }],
        messages: [{ role: 'user', content: [{ ...text('a'), cache_control: null }, text('b')] }],
      },
      [
        { role: 'system', content: [text('Be brief.')] },
        { role: 'user', content: [text('a'), text('b')] },
      ],
    ],
    [
      'neighbours of the same role, as one turn',
      { messages: [user, { role: 'user', content: [text('again')] }] },
      [{ role: 'user', content: [text('Hello'), text('again')] }],
    ],
    [
      'a system message between others',
      { messages: [user, { role: 'system', content: 'Now in French.' }, user] },
      [
        { role: 'user', content: [text('Hello')] },
        { role: 'system', content: [text('Now in French.')] },
        { role: 'user', content: [text('Hello')] },
      ],
    ],
    [
      'calls and their results',
      {
        messages: [
          user,
          { role: 'assistant', content: [text('Let me see.'), used] },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'toolu_abc', content: 'sunny' },
              text('and tomorrow?'),
            ],
          },
        ],
      },
      [
        { role: 'user', content: [text('Hello')] },
        { role: 'assistant', content: [text('Let me see.')], tool_calls: [call] },
        { role: 'tool', tool_call_id: 'abc', name: 'weather', content: [text('sunny')] },
        { role: 'user', content: [text('and tomorrow?')] },
      ],
    ],
    [
      'results that are blocks, errors or nothing',
      {
        messages: [
          { role: 'assistant', content: [used] },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'toolu_abc', content: [text('no city')], is_error: true },
              { type: 'tool_result', tool_use_id: 'toolu_abc' },
            ],
          },
        ],
      },
      [
        { role: 'assistant', content: [], tool_calls: [call] },
        { role: 'tool', tool_call_id: 'abc', name: 'weather', content: [text('Error: no city')] },
        { role: 'tool', tool_call_id: 'abc', name: 'weather', content: [] },
      ],
    ],
    [
      'reasoning of earlier turns, shown or sealed, and none where it was redacted',
      {
        messages: [
          {
            role: 'assistant',
            content: [
              { type: 'thinking', ...shownThinking('Hm.', false) },
              { type: 'redacted_thinking', data: 'x' },
              { type: 'thinking', ...shownThinking('Über.', true) },
              text('Yes.'),
            ],
          },
          user,
        ],
      },
      [
        { role: 'assistant', reasoning_content: 'Hm.\nÜber.', content: [text('Yes.')] },
        { role: 'user', content: [text('Hello')] },
      ],
    ],
  ])('may be %s', (_, body, messages) => {
    expect(read(body).messages).toEqual(messages);
  });

  it('go on with what the assistant has begun', () => {
    expect(read({}).continue_final_message).toBe(false);
    const begun = [user, { role: 'assistant', content: 'I am' }];
    expect(read({ messages: begun }).continue_final_message).toBe(true);
  });
});

describe('what is asked for', () => {
  it.each<[object, object]>([
    [{ stop_sequences: ['END'] }, { stop: ['END'] }],
    [
      { temperature: 0.5, top_p: 0.9, top_k: 3 },
      { temperature: 0.5, top_p: 0.9, top_k: 3 },
    ],
    [{ tools }, { tools: [{ type: 'function', function: { name: 'weather', parameters: schema } }] }],
    [
      { tools: [{ ...tools[0], type: 'custom', description: 'd', strict: true, cache_control: null }] },
      {
        tools: [
          {
            type: 'function',
            function: { name: 'weather', description: 'd', strict: true, parameters: schema },
          },
        ],
      },
    ],
    [
      { tools, tool_choice: { type: 'any' } },
      { tool_choice: 'required', parallel_tool_calls: true },
    ],
    [
      { tools, tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
      { tool_choice: 'auto', parallel_tool_calls: false },
    ],
    [
      { tools, tool_choice: { type: 'tool', name: 'weather' } },
      { tool_choice: { type: 'function', function: { name: 'weather' } } },
    ],
    [{ tools, tool_choice: { type: 'none' } }, { tool_choice: 'none' }],
    [
      { thinking: { type: 'disabled' } },
      { chat_template_kwargs: { enable_thinking: false, thinking: false } },
    ],
    [{ thinking: { type: 'adaptive' } }, { chat_template_kwargs: { enable_thinking: true, thinking: true } }],
    [
      { thinking: { type: 'enabled', budget_tokens: 2000 } },
      { chat_template_kwargs: { enable_thinking: true, thinking: true, thinking_budget: 2000 } },
    ],
    [
      { thinking: { type: 'adaptive' }, chat_template_kwargs: { thinking: 'hard' } },
      { chat_template_kwargs: { enable_thinking: true, thinking: 'hard' } },
    ],
    [{ output_config: { effort: 'low' } }, { reasoning_effort: 'low' }],
    [{ output_config: { effort: 'max' } }, { reasoning_effort: 'xhigh' }],
    [
      { output_config: { format: { type: 'json_schema', schema } } },
      {
        response_format: { type: 'json_schema', json_schema: { schema } },
        formatName: 'output_config.format',
      },
    ],
    [
      { output_format: { type: 'json_schema', schema } },
      { response_format: { type: 'json_schema', json_schema: { schema } }, formatName: 'output_format' },
    ],
  ])('%j', (body, expected) => {
    expect(read(body)).toMatchObject(expected);
  });

  it('may be more than matters here', () => {
    const given = {
      max_tokens: 1,
      messages: [user],
      metadata: { user_id: 'u' },
      service_tier: 'auto',
      cache_control: { type: 'ephemeral' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      odd: 1,
    };
    expect(parseBody(messagesRules, given).unknown).toEqual(['odd']);
  });

  it('need not be limited to be counted', () => {
    expect(parseBody(countRules, { messages: [user] }).body.max_tokens).toBeUndefined();
  });

  const begun = [user, { role: 'assistant', content: 'I am' }];
  it.each<[object, string, RegExp]>([
    [{ max_tokens: undefined }, 'max_tokens', /is missing/],
    [{ max_tokens: 0 }, 'max_tokens', /1/],
    [{ messages: [] }, 'messages', /at least one/],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].role', /user, assistant or system/],
    [{ messages: [{ role: 'user', content: 3 }] }, 'messages[0].content', /a text or a list of blocks/],
    [
      { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'ftp' } }] }] },
      'messages[0].content[0].source.type',
      /base64, url or file/,
    ],
    [
      {
        messages: [{ role: 'user', content: [text('a'), { type: 'document', source: { type: 'base64' } }] }],
      },
      'messages[0].content[1].source.type',
      /only documents of type text or content/,
    ],
    [
      { messages: [{ role: 'user', content: [used] }] },
      'messages[0].content[0].type',
      /'tool_use' is not supported; here it may be text, .*tool_result/,
    ],
    [
      {
        messages: [
          { role: 'assistant', content: [used] },
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: 'toolu_abc', content: [{ type: 'audio' }] }],
          },
        ],
      },
      'messages[1].content[0].content[0].type',
      /type 'audio' is not supported/,
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_no' }] }] },
      'messages[0].content[0].tool_use_id',
      /there is no tool_use 'toolu_no' before it/,
    ],
    [{ messages: [user, { role: 'assistant', content: [used] }] }, 'messages[1].content[0]', /must follow/],
    [
      { messages: [{ role: 'user', content: [text('a'), text('x'.repeat(101))] }] },
      'messages[0].content[1]',
      /101 characters/,
    ],
    [{ system: [{ type: 'image' }] }, 'system[0].type', /type 'image'/],
    [
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'tools[0].type',
      /'web_search_20250305' are not served here/,
    ],
    [{ tools: [{ name: 'weather' }] }, 'tools[0].input_schema', /is missing/],
    [{ tools: [...tools, ...tools] }, 'tools', /two functions named 'weather'/],
    [{ tools: [{ ...tools[0], input_examples: ['x'] }] }, 'tools[0].input_examples[0]', /./],
    [{ tools: [{ ...tools[0], allowed_callers: ['code'] }] }, 'tools[0].allowed_callers', /direct/],
    [{ tool_choice: { type: 'any' } }, 'tool_choice', /needs tools/],
    [{ tools, tool_choice: { type: 'tool', name: 'no' } }, 'tool_choice', /no function 'no'/],
    [{ tool_choice: { type: 'some' } }, 'tool_choice.type', /auto, any, tool or none/],
    [{ thinking: { type: 'enabled' } }, 'thinking.budget_tokens', /is missing/],
    [{ thinking: { type: 'adaptive' }, messages: begun }, 'thinking', /the answer goes on/],
    [
      { output_format: { type: 'json_schema', schema }, messages: begun },
      'output_format',
      /the answer goes on/,
    ],
    [
      {
        output_format: { type: 'json_schema', schema },
        output_config: { format: { type: 'json_schema', schema } },
      },
      'output_format',
      /older name/,
    ],
    [{ output_config: { task_budget: {} } }, 'output_config', /task_budget/],
    [{ stop_sequences: [''] }, 'stop_sequences[0]', /./],
    [{ mcp_servers: [{}] }, 'mcp_servers', /give tools instead/],
    [{ container: 'c' }, 'container', /no containers/],
    [
      { context_management: { edits: [{ type: 'compact_20260112' }] } },
      'context_management.edits[0].type',
      /only clear_tool_uses_20250919/,
    ],
  ])('is refused by name: %j', (body, param, message) => {
    expect(refusal(body)).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });
});

describe('sources', () => {
  const source = {
    type: 'search_result',
    source: 'https://a.example/',
    title: 'A "b"',
    content: [text('one'), text('two')],
  };
  const spelled = '<search_result source="https://a.example/" title="A \\"b\\"">\none\ntwo\n</search_result>';
  const document = {
    type: 'document',
    title: 'T',
    source: { type: 'text', media_type: 'text/plain', data: 'body' },
  };

  it('are spelled for the model, from the user and in results of tools', () => {
    const body = read({
      messages: [
        { role: 'user', content: [source, document, text('Which?')] },
        { role: 'assistant', content: [used] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: used.id, content: [source] }] },
      ],
    });
    expect(body.messages[0]?.content).toEqual([
      text(spelled),
      text('<document title="T">\nbody\n</document>'),
      text('Which?'),
    ]);
    expect(body.messages[2]).toMatchObject({ role: 'tool', content: [text(spelled)] });
  });
});

describe('tools', () => {
  const late = { name: 'late', input_schema: schema, defer_loading: true };
  const names = (body: object) => read(body).tools?.map(({ function: { name } }) => name);

  it('that wait to be searched for are offered once a result has named them', () => {
    expect(names({ tools: [...tools, late] })).toEqual(['weather']);
    const found = {
      type: 'tool_result',
      tool_use_id: used.id,
      content: [{ type: 'tool_reference', tool_name: 'late' }],
    };
    const messages = [user, { role: 'assistant', content: [used] }, { role: 'user', content: [found] }];
    expect(names({ tools: [...tools, late], messages })).toEqual(['weather', 'late']);
    expect(read({ messages }).messages.at(-1)?.content).toEqual([text('The tool late can be called now.')]);
  });

  it('show their examples with the description', () => {
    const [tool] =
      read({ tools: [{ ...tools[0], description: 'D', input_examples: [{ city: 'Oslo' }, {}] }] }).tools ??
      [];
    expect(tool?.function.description).toBe('D\n\nExamples of its input:\n{"city":"Oslo"}\n{}');
  });
});

it('warns where citations are asked for', () => {
  const cited = (enabled: boolean) => {
    const source = { type: 'text', data: 'a' };
    const content = [{ type: 'document', source, citations: { enabled } }];
    const given = parseBody(messagesRules, { max_tokens: 1, messages: [{ role: 'user', content }] }).body;
    return messagesProtocol.check?.(given, {} as never, incoming);
  };
  expect(cited(true)).toEqual([expect.stringContaining('citations')]);
  expect(cited(false)).toEqual([]);
});
