import { describe, expect, it } from 'vitest';
import { sharedServer } from '../../../test/support/keyed-server.ts';
import { toolSelection } from '../openai/schemas/tools.ts';
import { OutputItems } from './output-items.ts';
import { knownTools, shownTools, toChatChoice, toChatTools, toolsSchema, toolWarnings } from './tools.ts';

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weather = { type: 'function', name: 'get_weather', parameters, strict: true };
const shell = { type: 'custom', name: 'shell', description: 'Runs a command.' };
const digits = { type: 'grammar', syntax: 'regex', definition: '[0-9]{3}' };
const house = { type: 'namespace', name: 'house', description: 'At home.', tools: [weather, shell] };
const { post } = sharedServer();

const functionOf = (tool: object) => toChatTools(toolsSchema.parse([tool]))[0]?.function;

describe('a tool', () => {
  it('in a namespace is a function whose name and description have it', () => {
    const [first, second] = toChatTools(toolsSchema.parse([house]));
    expect(first?.function).toMatchObject({
      name: 'house__get_weather',
      description: 'At home.',
      parameters,
    });
    expect(second?.function).toMatchObject({
      name: 'house__shell',
      description: 'At home.\n\nRuns a command.',
    });
    expect(knownTools(toolsSchema.parse([house])).get('house__shell')).toEqual({
      name: 'shell',
      namespace: 'house',
      custom: true,
    });
  });

  it('of custom input is a function of one text, held to a regular expression where there is one', () => {
    const text = { type: 'object', required: ['input'], additionalProperties: false };
    expect(functionOf(shell)?.parameters).toEqual({ ...text, properties: { input: { type: 'string' } } });
    const properties = { input: { type: 'string', pattern: '^(?:[0-9]{3})$' } };
    expect(functionOf({ ...shell, format: digits })?.parameters).toEqual({ ...text, properties });
  });

  it('with a lark grammar shows it to the model once, and holds calls to it', async () => {
    const definition =
      'start: "say" (" " WORD)~1..3 "\\"" NUMBER\nWORD: /[a-c]{2}/i\n%import common.DIGIT -> NUMBER';
    const format = { type: 'grammar', syntax: 'lark', definition };
    const tool = { ...shell, format };
    expect(functionOf(tool)?.description).toContain(`lark grammar:\n${definition}`);
    const selection = toolSelection({
      tools: toChatTools(toolsSchema.parse([tool])),
      tool_choice: 'required',
    });
    expect(JSON.stringify(selection.shown[0]?.function.parameters)).not.toContain('WORD');
    const body = { input: 'a', tools: [tool], tool_choice: 'required', max_output_tokens: 60, seed: 3 };
    for (const stream of [false, true]) {
      const answer = await post('/v1/responses', { ...body, stream });
      expect(answer.headers).not.toHaveProperty('x-chairlift-warning');
      const inputs = [...answer.body.matchAll(/"type":"custom_tool_call"[^}]*?"input":("(?:[^"\\]|\\.)+")/g)];
      expect(inputs.length).toBeGreaterThan(0);
      for (const [, input] of inputs)
        expect(JSON.parse(input as string)).toMatch(/^say( [a-cA-C]{2}){1,3}"\d$/);
    }
  });

  it.each([
    ['start: a\na: "x"{2}', 'the name of a rule or terminal is missing'],
    ['start: /a(?=b)/', 'depends on its surroundings'],
    ['start: b', "no rule 'b'"],
    ['%import python.NAME\nstart: NAME', 'another module than common'],
  ])('with the lark grammar %j is refused, and the error says why', async (definition, problem) => {
    const format = { type: 'grammar', syntax: 'lark', definition };
    const refused = await post('/v1/responses', { input: 'a', tools: [{ ...shell, format }] });
    expect(refused.statusCode).toBe(400);
    expect(refused.json().error.param).toBe('tools');
    expect(refused.json().error.message).toContain(problem);
  });

  it('that only a hosted service has is left out, and named in a warning', () => {
    const tools = toolsSchema.parse([weather, { type: 'web_search' }, { type: 'mcp', server_label: 'x' }]);
    expect(toChatTools(tools).map(({ function: { name } }) => name)).toEqual(['get_weather']);
    expect(shownTools(tools)).toEqual([weather]);
    expect(toolWarnings(tools)).toEqual([
      'tools that only a hosted service has were left out: web_search, mcp',
    ]);
    const allowed = {
      type: 'allowed_tools',
      mode: 'auto',
      tools: [{ type: 'web_search' }, weather],
    } as const;
    expect(toChatChoice(allowed as never)).toMatchObject({
      allowed_tools: { tools: [{ type: 'function' }] },
    });
  });

  it('counts in a namespace as it does alone', async () => {
    const many = (name: string, count: number) => ({
      type: 'namespace',
      name,
      tools: Array.from({ length: count }, (_, n) => ({ type: 'function', name: `f${n}` })),
    });
    for (const tools of [[many('a', 513)], [many('a', 300), many('b', 300)], [weather, many('a', 512)]]) {
      const refused = await post('/v1/responses', { input: 'a', tools });
      expect(refused.statusCode).toBe(400);
      expect(refused.json().error.param).toMatch(/^tools/);
    }
    expect(toolsSchema.safeParse([many('a', 256), many('b', 256)]).success).toBe(true);
  });

  it('in a namespace is chosen by its own name where no other has that', async () => {
    const tools = toolsSchema.parse([house, { ...weather, name: 'other' }]);
    const named = (name: string) => ({ type: 'function', function: { name } });
    const chosen = (name: string) => toChatChoice({ type: 'function', name }, tools);
    expect(chosen('get_weather')).toEqual(named('house__get_weather'));
    expect(chosen('house__get_weather')).toEqual(named('house__get_weather'));
    expect(chosen('other')).toEqual(named('other'));
    const twice = [house, { ...house, name: 'hut' }];
    const refused = await post('/v1/responses', {
      input: 'a',
      tools: twice,
      tool_choice: { type: 'custom', name: 'shell' },
    });
    expect(refused.statusCode).toBe(400);
    expect(refused.json().error.message).toContain("no function 'shell'");
  });

  it('of no known type is refused', async () => {
    const response = await post('/v1/responses', { input: 'a', tools: [{ type: 'crystal_ball' }] });
    expect(response.statusCode).toBe(400);
    expect(response.json().error).toMatchObject({
      param: 'tools[0].type',
      message: expect.stringMatching(/crystal_ball/),
    });
  });
});

describe('a call', () => {
  it('comes with the name and namespace that the client gave, and with its input as text', () => {
    const output = new OutputItems(() => ({}), knownTools(toolsSchema.parse([house, shell])));
    const events = [
      ...output.push({
        parts: [{ kind: 'call', call: 0, name: 'house__get_weather', id: 'a' }],
        details: [],
      }),
      ...output.push({ parts: [{ kind: 'arguments', call: 0, text: '{"city": "Oslo"}' }], details: [] }),
      ...output.push({ parts: [{ kind: 'call', call: 1, name: 'shell', id: 'b' }], details: [] }),
      ...output.push({ parts: [{ kind: 'arguments', call: 1, text: '{"input": "ls\\n' }], details: [] }),
      ...output.push({ parts: [{ kind: 'arguments', call: 1, text: '-l"}' }], details: [] }),
      ...output.end('completed'),
    ];
    expect(output.items).toMatchObject([
      { type: 'function_call', name: 'get_weather', namespace: 'house', arguments: '{"city": "Oslo"}' },
      { type: 'custom_tool_call', call_id: 'b', name: 'shell', input: 'ls\n-l' },
    ]);
    const ofInput = events.filter(({ type }) => type.startsWith('response.custom_tool_call_input'));
    expect(ofInput.map(({ type, delta, input }) => [type.split('.').at(-1), delta ?? input])).toEqual([
      ['delta', 'ls\n'],
      ['delta', '-l'],
      ['done', 'ls\n-l'],
    ]);
  });

  it('of a custom tool is made, held to its expression, and gone on with', async () => {
    const tools = [{ ...shell, name: 'dial', format: digits }, { type: 'web_search' }];
    const body = { input: 'Dial.', tools, temperature: 0 };
    const made = await post('/v1/responses', { ...body, tool_choice: { type: 'custom', name: 'dial' } });
    expect(made.headers['x-chairlift-warning']).toContain('web_search');
    const [call] = made.json().output;
    expect(call).toMatchObject({ type: 'custom_tool_call', name: 'dial' });
    expect(call.input).toMatch(/^[0-9]{3}$/);
    const answered = { type: 'custom_tool_call_output', call_id: call.call_id, output: 'busy' };
    const input = [{ role: 'user', content: 'Dial.' }, call, answered];
    const next = await post('/v1/responses', { ...body, input, tool_choice: 'none', max_output_tokens: 5 });
    expect(next.statusCode, next.body).toBe(200);
    const lost = await post('/v1/responses', { ...body, input: [answered] });
    expect(lost.json().error.message).toContain('no call before the custom_tool_call_output');
  });
});
