// A chat template chosen for a model, by the name of its family or by a file.

import { existsSync, readFileSync } from 'node:fs';
import { messageOf } from '../runtime/error-message.ts';
import { chatTemplate } from './chat-template.ts';

export interface ChosenTemplate {
  readonly template: string;
  /** One of `namedTemplates`, which write BOS only where the model wants it. */
  readonly named: boolean;
  /** Whether it replaces the model's template; otherwise it is for models without one. */
  readonly replaces: boolean;
}

export function readChosenTemplate(choice: string, replaces: boolean): ChosenTemplate {
  const named = Object.hasOwn(namedTemplates, choice) && !existsSync(choice);
  const template = named ? (namedTemplates[choice] as string) : readTemplateFile(choice);
  chatTemplate({ template, specialTokens: {} });
  return { template, named, replaces };
}

function readTemplateFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const names = Object.keys(namedTemplates).join(', ');
    throw new Error(`${messageOf(error)}; give a file, or one of ${names}`);
  }
}

const turns = (before: string, after: string, assistant = before.replace('{{ role }}', 'assistant')) =>
  `{{ bos_token }}{% for message in messages %}{% set role = message.role %}${before}{{ message.content | trim }}${after}{% endfor %}{% if add_generation_prompt %}${assistant}{% endif %}`;

/** For families without a system message: it goes before the first user's message. */
const withoutSystem = (user: string, assistant: string, start: string) =>
  `{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}{% if message.role == 'system' %}{% set ns.system = message.content | trim ~ '\\n\\n' %}{% elif message.role == 'assistant' %}${assistant}{% else %}${user}{% set ns.system = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}${start}{% endif %}`;

const asked = '{{ ns.system }}{{ message.content | trim }}';
const answered = '{{ message.content | trim }}';

export const namedTemplates: Readonly<Record<string, string>> = {
  chatml: turns('<|im_start|>{{ role }}\n', '<|im_end|>\n'),
  gemma: withoutSystem(
    `<start_of_turn>user\n${asked}<end_of_turn>\n`,
    `<start_of_turn>model\n${answered}<end_of_turn>\n`,
    '<start_of_turn>model\n',
  ),
  llama2: withoutSystem(
    '[INST] {% if ns.system %}<<SYS>>\n{{ ns.system | trim }}\n<</SYS>>\n\n{% endif %}{{ message.content | trim }} [/INST]',
    ` ${answered} {{ eos_token }}{{ bos_token if not loop.last }}`,
    '',
  ),
  llama3: turns('<|start_header_id|>{{ role }}<|end_header_id|>\n\n', '<|eot_id|>'),
  mistral: withoutSystem(`[INST] ${asked} [/INST]`, ` ${answered}{{ eos_token }}`, ''),
  phi3: turns('<|{{ role }}|>\n', '<|end|>\n'),
  vicuna: withoutSystem(
    `{{ ns.system }}USER: ${answered}\n`,
    `ASSISTANT: ${answered}{{ eos_token }}\n`,
    'ASSISTANT:',
  ),
  zephyr: turns('<|{{ role }}|>\n', '{{ eos_token }}\n'),
};
