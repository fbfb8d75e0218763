import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChatMessage } from '../generation/chat-prompt.ts';
import type { ChatOptions, ToolDescription } from './call-options.ts';
import { ChairliftError } from './chairlift-error.ts';
import { load, type Model } from './loaded-model.ts';
import type { TextResult } from './model-calls.ts';

const user = (content: string): ChatMessage[] => [{ role: 'user', content }];
const question = user('What is the weather in Oslo?');
const greedy = { temperature: 0 } as const;

const weather: ToolDescription = {
  name: 'get_weather',
  description: 'Get the current weather in a city.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string', description: 'The city' } },
    required: ['city'],
  },
};
const time: ToolDescription = { name: 'get_time', description: 'Get the current time.' };

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
};

let model: Model;
beforeAll(async () => {
  model = await load({ kvBlocks: 256, threads: 1 });
});
afterAll(() => model.close());

describe('a structure', () => {
  it('holds the text of a chat to a schema, in pieces as in the whole', async () => {
    const answer = model.chat(user('Extract as JSON: Anna is 31 years old.'), { ...greedy, schema: person });
    let text = '';
    for await (const piece of answer) text += piece;
    const whole = await answer.result();
    expect(whole).toMatchObject({ text, finishReason: 'stop', reasoning: '', calls: [], notes: [] });
    const value = JSON.parse(text);
    expect(Object.keys(value)).toEqual(['name', 'age']);
    expect(Number.isInteger(value.age)).toBe(true);
  });

  it('holds a completion to a regular expression, a choice or a grammar', async () => {
    const continued = async (how: ChatOptions) =>
      (await model.complete('Once upon a time there was a', { ...greedy, ...how }).result()).text;
    expect(await continued({ regex: ' [a-z]+ (fox|owl)\\.' })).toMatch(/^ [a-z]+ (fox|owl)\.$/);
    expect([' red', ' green']).toContain(await continued({ choices: [' red', ' green'] }));
    expect(await continued({ grammar: 'root ::= " " [0-9] [0-9] "!"' })).toMatch(/^ \d\d!$/);
    expect(JSON.parse(await continued({ schema: { enum: [7, 'x'] } }))).toSatisfy((value) =>
      [7, 'x'].includes(value),
    );
  });

  it('is one at most, and one that can be enforced', async () => {
    const refused: [object, RegExp][] = [
      [{ schema: person, regex: 'a' }, /^regex: contradicts schema/],
      [{ schema: 'nothing' }, /^schema: give a JSON schema/],
      [{ schema: { type: 'nonsense' } }, /^schema: /],
      [{ regex: '(' }, /^regex: /],
      [{ regex: /a/ }, /^regex: give a text/],
      [{ choices: [] }, /^choices: give a list of texts/],
      [{ choices: [1] }, /^choices: give a list of texts/],
      [{ grammar: 'root ::= nowhere' }, /^grammar: /],
    ];
    for (const [options, message] of refused) {
      for (const answer of [model.chat(question, options), model.complete('a', options)]) {
        const error = await answer.result().catch((thrown: unknown) => thrown);
        expect(error, JSON.stringify(options)).toBeInstanceOf(ChairliftError);
        expect(error).toMatchObject({ code: 'invalid_value', message: expect.stringMatching(message) });
      }
    }
  });
});

describe('tools', () => {
  it('are called, and their results answered', async () => {
    const asked = await model.chat(question, { ...greedy, tools: [weather] }).result();
    expect(asked).toMatchObject({ finishReason: 'tool_calls', text: '' });
    expect(asked.calls).toMatchObject([{ id: expect.stringMatching(/^\w{9}$/), name: 'get_weather' }]);
    expect(JSON.parse(asked.calls[0]?.arguments ?? '')).toEqual({ city: 'Oslo' });
    const told = await model
      .chat([...question, turnOf(asked), ...resultsOf(asked)], { ...greedy, tools: [weather] })
      .result();
    expect(told).toMatchObject({ finishReason: 'stop', calls: [] });
    expect(told.text).not.toBe('');
  });

  it("are the same in OpenAI's shape", async () => {
    const own = await model.chat(question, { ...greedy, tools: [weather] }).result();
    const tools = [{ type: 'function', function: weather } as const];
    const other = await model.chat(question, { ...greedy, tools }).result();
    expect(other.usage.promptTokens).toBe(own.usage.promptTokens);
    expect(namesOf(other)).toEqual(namesOf(own));
  });

  it('are called where they must be, by name, and not where they may not', async () => {
    const tools = [weather, time];
    const call = async (options: ChatOptions) =>
      model.chat(user('Hello, who are you?'), { ...greedy, tools, maxTokens: 100, ...options }).result();
    expect(namesOf(await call({ toolChoice: 'required', parallelToolCalls: false }))).toHaveLength(1);
    expect(namesOf(await call({ toolChoice: { name: 'get_time' } }))).toEqual(['get_time']);
    const none = await call({ toolChoice: 'none' });
    const plain = await model.chat(user('Hello, who are you?'), greedy).result();
    expect({ text: none.text, usage: none.usage.promptTokens, calls: none.calls }).toEqual({
      text: plain.text,
      usage: plain.usage.promptTokens,
      calls: [],
    });
  });

  it('say what of them is not enforced, and refuse that where they are strict', async () => {
    const parameters = { type: 'object', properties: { city: { type: 'string', pattern: '^(.).*\\1$' } } };
    const ask = (strict: boolean) =>
      model.chat(question, { ...greedy, maxTokens: 40, tools: [{ ...weather, parameters, strict }] });
    expect((await ask(false).result()).notes).not.toEqual([]);
    await expect(ask(true).result()).rejects.toMatchObject({
      code: 'invalid_value',
      message: expect.stringMatching(/^tools: /),
    });
  });

  it('are refused by name where they are wrong', async () => {
    const refused: [object, RegExp][] = [
      [{ tools: weather }, /^tools: give a list/],
      [{ tools: [{ name: 'two words' }] }, /^tools\[0\]\.name: /],
      [{ tools: [weather, weather] }, /^tools: there are two functions named 'get_weather'/],
      [{ tools: [{ ...weather, colour: 1 }] }, /^tools\[0\]\.colour: /],
      [{ tools: [{ ...weather, parameters: 'city' }] }, /^tools\[0\]\.parameters: /],
      [{ tools: [{ ...weather, strict: 'yes' }] }, /^tools\[0\]\.strict: /],
      [{ toolChoice: 'required' }, /^toolChoice: needs tools/],
      [{ tools: [weather], toolChoice: { name: 'nobody' } }, /^toolChoice: there is no function 'nobody'/],
      [{ tools: [weather], toolChoice: 'always' }, /^toolChoice: give/],
      [{ tools: [weather], parallelToolCalls: 2 }, /^parallelToolCalls: give true or false/],
    ];
    for (const [options, message] of refused) {
      await expect(model.chat(question, options).result(), JSON.stringify(options)).rejects.toMatchObject({
        code: 'invalid_value',
        message: expect.stringMatching(message),
      });
    }
    const tools: ChatOptions = { ...greedy, tools: [weather] };
    await expect(model.complete('a', tools).result()).rejects.toMatchObject({ code: 'invalid_value' });
  });
});

describe('reasoning', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-reasoning-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('is told apart from the text, unless control tokens are asked for', async () => {
    const chatTemplate = join(folder, 'reasons.jinja');
    writeFileSync(
      chatTemplate,
      '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}' +
        '<|im_start|>assistant\n<think>\n',
    );
    await using reasoner = await load({
      kvBlocks: 64,
      threads: 1,
      chatTemplate: [`${model.name}=${chatTemplate}`],
    });
    const how = { ...greedy, maxTokens: 12 };
    const { text, reasoning } = await reasoner.chat(question, how).result();
    expect(text).toBe('');
    expect(reasoning).not.toBe('');
    const shown = await reasoner.chat(question, { ...how, special: true }).result();
    expect(shown.text).not.toBe('');
    expect(shown.reasoning).toBe('');
  });
});

describe('closing', () => {
  it('ends a call whose grammar is still being compiled', async () => {
    const other = await load({ kvBlocks: 64, threads: 1 });
    const answer = other.complete('a', { regex: '[a-z]{3}' });
    await other.close();
    await expect(answer.result()).rejects.toMatchObject({ code: 'model_closed' });
  });
});

const namesOf = ({ calls }: TextResult) => calls.map(({ name }) => name);

function turnOf({ text, calls }: TextResult): ChatMessage {
  const made = calls.map(({ id, ...called }) => ({ id, type: 'function', function: called }));
  return { role: 'assistant', content: text, tool_calls: made };
}

const resultsOf = ({ calls }: TextResult): ChatMessage[] =>
  calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '{"temperature": 7}' }));
