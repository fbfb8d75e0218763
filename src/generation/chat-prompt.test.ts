import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../pool/served-model.ts';
import { chatTemplate } from '../text/chat-template.ts';
import { type ChatMessage, chatPrompt, checkMessages } from './chat-prompt.ts';
import { GenerationError } from './generation-error.ts';

const template = chatTemplate({
  template:
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments.city }}){% endfor %}{% endfor %}{% if add_generation_prompt %}[answer{{ ' calmly' if calm else '' }}]{% endif %}",
  specialTokens: {},
});
/** Every message in tags of its role. */
const turns = (content: string) =>
  chatTemplate({
    template: `{% for m in messages %}<{{ m.role }}>${content}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`,
    specialTokens: {},
  });
const model = { name: 'm', template } as ServedModel;
const limits = { maxMessages: 3, maxTextCharacters: 10 };

function prompt(messages: readonly ChatMessage[], variables?: Record<string, unknown>): string {
  return chatPrompt(model, { messages, variables }, limits);
}

function refusal(act: () => unknown): GenerationError {
  try {
    act();
  } catch (error) {
    return error as GenerationError;
  }
  throw new Error('it was not refused');
}

describe('messages', () => {
  it('become one text by the template, parts of text on lines of their own', () => {
    const parts = [
      { type: 'text', text: 'What is' },
      { type: 'text', text: 'it' },
    ];
    expect(prompt([{ role: 'user', content: parts }])).toBe('[user]What is\nit[answer]');
  });

  it('of a developer are those of the system', () => {
    expect(prompt([{ role: 'developer', content: 'x' }])).toBe('[system]x[answer]');
  });

  it('carry variables to the template', () => {
    expect(prompt([{ role: 'user', content: 'x' }], { calm: true })).toBe('[user]x[answer calmly]');
  });

  it('end without the start of an answer where none is wanted', () => {
    const messages = [{ role: 'user', content: 'x' }] as const;
    expect(chatPrompt(model, { messages, addGenerationPrompt: false })).toBe('[user]x');
  });

  it('end within the last one where that is continued', () => {
    const messages = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'It is ' },
    ] as const;
    const marked = { name: 'm', template: turns('{{ m.content }}') } as ServedModel;
    expect(chatPrompt(marked, { messages })).toBe('<user>x</user><assistant>It is </assistant><assistant>');
    expect(chatPrompt(marked, { messages, continueFinalMessage: true })).toBe(
      '<user>x</user><assistant>It is ',
    );
    const trimming = { name: 'm', template: turns('{{ m.content | trim }}') } as ServedModel;
    expect(chatPrompt(trimming, { messages, continueFinalMessage: true })).toBe(
      '<user>x</user><assistant>It is',
    );
  });

  it('are continued where the assistant spoke last, and an answer does not begin anew', () => {
    const parameter = 'continue_final_message';
    const asked = [{ role: 'user', content: 'x' }] as const;
    const answered = [...asked, { role: 'assistant', content: 'y' }] as const;
    const options = { continueFinalMessage: true };
    expect(refusal(() => chatPrompt(model, { messages: asked, ...options }))).toMatchObject({ parameter });
    const both = { messages: answered, ...options, addGenerationPrompt: true };
    expect(refusal(() => chatPrompt(model, both))).toMatchObject({ parameter });
    const silent = { name: 'm', template: turns('') } as ServedModel;
    expect(refusal(() => chatPrompt(silent, { messages: answered, ...options })).parameter).toBe('messages');
  });

  it('with earlier tool calls hand arguments on as objects', () => {
    const calls = [{ type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }];
    expect(prompt([{ role: 'assistant', content: null, tool_calls: calls }])).toBe(
      '[assistant](weather Oslo)[answer]',
    );
  });

  it('show a template no field that a client left null or empty', () => {
    const template = chatTemplate({ template: '{{ messages[0] | tojson }}', specialTokens: {} });
    const shown = { name: 'm', template } as ServedModel;
    const message = {
      role: 'assistant',
      content: 'Yes.',
      name: null,
      refusal: null,
      tool_calls: [],
    } as const;
    const messages = [{ ...message, tool_call_id: null, reasoning_content: null }];
    expect(JSON.parse(chatPrompt(shown, { messages }))).toEqual({ role: 'assistant', content: 'Yes.' });
  });

  it('of an assistant that refused hold what it said', () => {
    const part = { type: 'refusal', refusal: 'I would rather not.' };
    const said = '[assistant]I would rather not.[answer]';
    const refusals: ChatMessage[] = [
      { role: 'assistant', content: [part] },
      { role: 'assistant', content: null, refusal: part.refusal },
    ];
    for (const message of refusals) expect(chatPrompt(model, { messages: [message] })).toBe(said);
    const plain: ChatMessage = { role: 'assistant', content: 'Yes.', refusal: null };
    expect(prompt([plain])).toBe('[assistant]Yes.[answer]');
  });

  it('with an image are refused, naming the place', () => {
    const content = [{ type: 'text', text: 'what is' }, { type: 'image_url' }];
    const { code, parameter, message } = refusal(() => prompt([{ role: 'user', content }]));
    expect(code).toBe('invalid_value');
    expect(parameter).toBe('messages[0].content[1]');
    expect(message).toContain('image_url');
  });

  it('without content, too many, or too long are refused', () => {
    expect(refusal(() => prompt([{ role: 'user' }])).parameter).toBe('messages[0].content');
    expect(refusal(() => prompt(Array(4).fill({ role: 'user', content: 'x' }))).parameter).toBe('messages');
    expect(refusal(() => prompt([{ role: 'user', content: 'x'.repeat(11) }])).code).toBe(
      'string_above_max_length',
    );
  });

  it('need a template', () => {
    const plain = { name: 'm', template: undefined } as ServedModel;
    const messages = [{ role: 'user', content: 'x' }] as const;
    expect(refusal(() => chatPrompt(plain, { messages }, limits)).code).toBe('no_chat_template');
  });
});

describe('messages of unknown making', () => {
  it('are taken as they are where they are right', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }], name: 'ada' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c' }], name: null, tool_call_id: null },
      { role: 'tool', content: '5', tool_call_id: 'c' },
    ];
    expect(checkMessages(messages)).toBe(messages);
  });

  it.each<[string, unknown, string]>([
    ['no list', 'Hello', 'messages'],
    ['nothing', [], 'messages'],
    ['a text', ['Hello'], 'messages[0]'],
    ['an unknown role', [{ role: 'poet', content: 'x' }], 'messages[0].role'],
    ['a number for content', [{ role: 'user', content: 5 }], 'messages[0].content'],
    ['a part without a type', [{ role: 'user', content: [{ text: 'x' }] }], 'messages[0].content'],
    [
      'a second message without a role',
      [{ role: 'user', content: 'x' }, { content: 'y' }],
      'messages[1].role',
    ],
    ['a name that is none', [{ role: 'user', content: 'x', name: 7 }], 'messages[0].name'],
    ['calls that are none', [{ role: 'assistant', tool_calls: 'x' }], 'messages[0].tool_calls'],
  ])('are refused by the place of what is wrong: %s', (_, messages, parameter) => {
    expect(() => checkMessages(messages)).toThrow(
      expect.objectContaining({ parameter, message: expect.stringContaining(parameter) }),
    );
    expect(() => checkMessages(messages)).toThrow(GenerationError);
  });
});
