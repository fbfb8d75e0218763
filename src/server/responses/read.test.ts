import { describe, expect, it } from 'vitest';
import { parseBody } from '../http/parse-body.ts';
import { toChatBody } from './read.ts';
import { responsesRules } from './schema.ts';

const nothing = { history: [], given: [] };

function read(body: object): object {
  const { body: given } = parseBody(responsesRules, { input: 'a', ...body });
  return toChatBody(given, nothing);
}

const named = (name: string) => ({ type: 'function', function: { name } });

describe('a body in the words of a chat', () => {
  it.each<[object, object]>([
    [
      { max_output_tokens: 5, temperature: 0.5, top_p: 0.9 },
      { max_completion_tokens: 5, temperature: 0.5, top_p: 0.9 },
    ],
    [{ reasoning: { effort: 'low', summary: 'auto' } }, { reasoning_effort: 'low' }],
    [{ reasoning: { effort: null } }, { reasoning_effort: undefined }],
    [{ text: { format: { type: 'text' }, verbosity: 'medium' } }, { response_format: { type: 'text' } }],
    [{ text: { format: { type: 'json_object' } } }, { response_format: { type: 'json_object' } }],
    [
      { text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true } } },
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object' }, strict: true },
        },
      },
    ],
    [
      { tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }] },
      {
        tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' }, strict: true } }],
      },
    ],
    [
      { tools: [{ type: 'function', name: 'f', description: 'd', parameters: null, strict: false }] },
      { tools: [{ type: 'function', function: { name: 'f', description: 'd', strict: false } }] },
    ],
    [{ tool_choice: 'required' }, { tool_choice: 'required' }],
    [{ tool_choice: { type: 'function', name: 'f' } }, { tool_choice: named('f') }],
    [
      { tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'f' }] } },
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named('f')] } } },
    ],
    [{ include: ['message.output_text.logprobs'] }, { logprobs: true, top_logprobs: 0 }],
    [{ top_logprobs: 3 }, { logprobs: true, top_logprobs: 3 }],
    [
      { parallel_tool_calls: false, stream: true, seed: 7 },
      { parallel_tool_calls: false, stream: true, seed: 7 },
    ],
  ])('%j', (given, body) => {
    expect(read(given)).toMatchObject(body);
  });

  it('holds nothing that a chat would take for something else', () => {
    const given = { metadata: { a: 'b' }, user: 'u', store: false, prompt_cache_key: 'k', max_tool_calls: 3 };
    for (const name of Object.keys({ ...given, input: '' })) expect(read(given)).not.toHaveProperty(name);
  });
});

describe('the body', () => {
  it('takes null for what is left out, and names what it does not know', () => {
    const nulls = { text: null, tools: null, reasoning: null, previous_response_id: null };
    const { unknown } = parseBody(responsesRules, {
      input: 'a',
      ...nulls,
      shoe_size: 43,
      service_tier: 'auto',
    });
    expect(unknown).toEqual(['shoe_size']);
  });

  it.each<[object, unknown]>([
    [
      { role: 'user', content: 'a' },
      { type: 'message', content: [{ type: 'input_text', text: 'a' }] },
    ],
    [{ id: 'msg_1' }, { type: 'item_reference', id: 'msg_1' }],
    [{ type: 'reasoning', summary: [], content: null }, { type: 'reasoning' }],
    [
      { type: 'function_call_output', call_id: 'c', output: 'a' },
      { output: [{ type: 'input_text', text: 'a' }] },
    ],
  ])('reads the item %j', (item, expected) => {
    expect(parseBody(responsesRules, { input: [item] }).body.input?.[0]).toMatchObject(expected as object);
  });

  it.each([
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [n, ''])) }, 'metadata'],
    [{ metadata: { a: 1 } }, 'metadata.a'],
    [{ input: 5 }, 'input'],
    [{ input: [{ type: 'message', role: 'tool', content: '' }] }, 'input[0].role'],
    [{ tools: [{ type: 'function', function: { name: 'f' } }] }, 'tools[0].name'],
    [{ reasoning: { effort: 'huge' } }, 'reasoning.effort'],
  ])('refuses %j', (body, param) => {
    expect(() => parseBody(responsesRules, { input: 'a', ...body })).toThrow(
      expect.objectContaining({ param }),
    );
  });
});
