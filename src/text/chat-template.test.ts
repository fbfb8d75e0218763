import { describe, expect, it } from 'vitest';
import { ChatTemplateError, chatTemplate, formatTime } from './chat-template.ts';

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi' },
];
const chatMl = `{% for message in messages %}
<|im_start|>{{ message.role }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}`;

describe('a chat template', () => {
  it('renders messages and the start of the answer', () => {
    const template = chatTemplate({ template: chatMl, specialTokens: {} });
    const start = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n';
    expect(template.render({ messages, addGenerationPrompt: false })).toBe(start);
    expect(template.render({ messages, addGenerationPrompt: true })).toBe(`${start}<|im_start|>assistant\n`);
  });

  it('knows special tokens, further variables and Python’s range', () => {
    const template =
      '{{ bos_token }}{% if not enable_thinking %}brief{% endif %}{% for i in range(2, 5) %}{{ i }}{% endfor %}{{ eos_token }}';
    const rendered = chatTemplate({
      template,
      specialTokens: { bos_token: '<s>', eos_token: '</s>' },
    }).render({
      messages,
      addGenerationPrompt: false,
      variables: { enable_thinking: false },
    });
    expect(rendered).toBe('<s>brief234</s>');
  });

  it('sees tools as none where there are none', () => {
    const template = chatTemplate({
      template: '{% if tools is not none %}{{ tools | length }}{% else %}none{% endif %}',
      specialTokens: {},
    });
    expect(template.render({ messages, addGenerationPrompt: false })).toBe('none');
    expect(template.render({ messages, addGenerationPrompt: false, tools: [{ type: 'function' }] })).toBe(
      '1',
    );
  });

  it('takes the second template where tools are given', () => {
    const template = chatTemplate({ template: 'plain', toolTemplate: 'tools', specialTokens: {} });
    expect(template.render({ messages, addGenerationPrompt: false })).toBe('plain');
    expect(template.render({ messages, addGenerationPrompt: false, tools: [{}] })).toBe('tools');
  });

  it('tells templates the day, in two forms, unless a request does', () => {
    const template = chatTemplate({ template: '{{ date_string }}, {{ datetime }}', specialTokens: {} });
    const input = { messages, addGenerationPrompt: false, now: new Date(2024, 6, 4) };
    expect(template.render(input)).toBe('04 Jul 2024, Jul 04 2024');
    const variables = { date_string: 'today' };
    expect(template.render({ ...input, variables })).toBe('today, Jul 04 2024');
  });

  it('tells the time it is given', () => {
    const template = chatTemplate({ template: "{{ strftime_now('%d %b %Y') }}", specialTokens: {} });
    const now = new Date(2024, 6, 4);
    expect(template.render({ messages, addGenerationPrompt: false, now })).toBe('04 Jul 2024');
  });

  it('passes on why a template refuses a conversation', () => {
    const template = chatTemplate({
      template: "{{ raise_exception('Roles must alternate') }}",
      specialTokens: {},
    });
    const render = () => template.render({ messages, addGenerationPrompt: false });
    expect(render).toThrow(ChatTemplateError);
    expect(render).toThrow('the chat template refuses this conversation: Roles must alternate');
  });

  it.each([
    "{{ messages.constructor.constructor('return process')() }}",
    "{{ messages[0].constructor.constructor('return process')() }}",
    "{{ range.constructor('return process')() }}",
    "{{ ''.constructor.constructor('return process')() }}",
    "{{ messages[0].__proto__.constructor('return process')() }}",
    "{{ require('node:fs') }}",
    '{{ process.exit(0) }}',
  ])('has no way to JavaScript: %s', (template) => {
    const { render } = chatTemplate({ template, specialTokens: {} });
    expect(() => render({ messages, addGenerationPrompt: false })).toThrow(ChatTemplateError);
  });

  it('refuses a template that cannot be read', () => {
    expect(() => chatTemplate({ template: '{% if x %}', specialTokens: {} })).toThrow(ChatTemplateError);
  });
});

describe('time in templates', () => {
  const time = new Date(2024, 1, 3, 16, 5, 9);

  it.each([
    ['%Y-%m-%d %H:%M:%S', '2024-02-03 16:05:09'],
    ['%A, %B %-d, %y', 'Saturday, February 3, 24'],
    ['%a %e %I:%M %p 100%%', 'Sat  3 04:05 PM 100%'],
  ])('%s', (format, expected) => {
    expect(formatTime(time, format)).toBe(expected);
  });

  it('names a directive it does not know', () => {
    expect(() => formatTime(time, '%Q')).toThrow('"%Q"');
  });
});
