import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { chosenFormat, detectFormat, formatNames } from './detect.ts';

const tools = '{%- for tool in tools %}{{ tool | tojson }}{% endfor %}';

describe('the format of a template', () => {
  it.each([
    ['hermes', '<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>'],
    [
      'qwen-xml',
      '<tool_call>\\n<function=example>\\n<parameter=p>\\nvalue\\n</parameter>\\n</function>\\n</tool_call>',
    ],
    ['seed-xml', "{%- set begin = '<seed:tool_call>' %}<function=f><parameter=p>"],
    [
      'glm',
      '<tool_call>{function-name}\\n<arg_key>{key}</arg_key>\\n<arg_value>{value}</arg_value>\\n</tool_call>',
    ],
    [
      'llama-json',
      '\'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.\'',
    ],
    ['llama-json', "{{- '<|python_tag|>' + tool_call.name + '.call(' }}"],
    ['pythonic', "'Respond in the format [func_name1(params_name1=params_value1), func_name2(params)]'"],
    ['tool-code', 'Write ```tool_code around calls'],
    ['lfm2', '"List of tools: <|tool_list_start|>["'],
    ['mistral', "{{- '[TOOL_CALLS]' + name + '[ARGS]' + arguments }}"],
    ['mistral-list', '{{- "[TOOL_CALLS] [" }}'],
    [
      'deepseek-v3',
      "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + name + '\\n```json\\n'}}",
    ],
    ['deepseek-v3.1', "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + name + '<｜tool▁sep｜>'}}"],
    ['kimi-k2', "{{'<|tool_calls_section_begin|>'}}"],
    ['harmony', '{{- "<|start|>assistant<|channel|>analysis<|message|>" }}'],
    ['granite', 'respond only with <|tool_call|> followed by a JSON list'],
    ['phi', "{{ '<|tool|>' + tools + '<|/tool|>' }}"],
    ['phi', 'respond in this format: <|tool_call|>{"name": "foo"}<|/tool_call|>'],
    ['gemma', "{{- '<|tool_call>call:' + function['name'] + '{' -}}"],
    ['functiongemma', "{{- '<start_function_call>call:' + name -}}"],
  ])('is %s by its marks', (name, mention) => {
    expect(detectFormat(`${tools}${mention}`)).toMatchObject({
      format: { name },
      rendersTools: true,
      mentionsCalls: true,
    });
  });

  it('of the embedded model is the one its template teaches', () => {
    const path = new URL('../../../tools/embedded-model/template.jinja', import.meta.url);
    const detected = detectFormat(readFileSync(path, 'utf8'));
    expect(detected).toMatchObject({ rendersTools: true, mentionsCalls: true });
    expect(detected.format).toMatchObject({ name: 'hermes', reasons: false });
  });

  it.each([
    undefined,
    '',
    "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    // Tools are spoken of, but never shown.
    "{{ 'You have tools and no tools' }} tools {{ message.tools }}{{ message['tools'] }}{# tools #}",
  ])('without tools says so, and guesses', (template) => {
    expect(detectFormat(template)).toMatchObject({
      format: { name: 'hermes' },
      rendersTools: false,
      mentionsCalls: false,
    });
  });
});

describe('the reasoning of a template', () => {
  it.each([
    ["{{ '<|im_start|>assistant\\n<think>\\n' }}", '<think>\n'],
    ["{{ content.split('</think>')[-1] }}", '<think>'],
    ["{{ '[THINK]' + block + '[/THINK]' }}", '[THINK]'],
    ["{%- set think_begin_token = '<seed:think>' %}", '<seed:think>'],
    ["{{- '<|channel>thought\\n' + text + '<channel|>' -}}", '<|channel>thought\n'],
    ['Write your thoughts after "Here is my thought process:"', 'Here is my thought process:'],
    ['Use <think></think> and <response></response>', '<think>'],
    ['<|channel|>analysis<|message|>', '<|start|>assistant<|channel|>analysis<|message|>'],
  ])('is known by %j', (template, promptEnd) => {
    const { format } = detectFormat(template);
    expect(format.reasons).toBe(true);
    expect(format.opened(promptEnd)).toBe(true);
    expect(format.opened('<|im_start|>assistant\n')).toBe(false);
  });

  it('is none where nothing speaks of it', () => {
    expect(detectFormat('{{ messages }}').format.reasons).toBe(false);
  });

  it('can be chosen by name, whatever the template tells, and reasoning stays', () => {
    const template = '{{ tools }}<tool_call></tool_call><think></think>';
    const { format, rendersTools } = chosenFormat('mistral', template);
    expect(format).toMatchObject({ name: 'mistral', reasons: true });
    expect(rendersTools).toBe(true);
    for (const name of formatNames) expect(chosenFormat(name, template).format.name).toBe(name);
  });
});
