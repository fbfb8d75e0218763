// Chat templates by the names people know them by, for models whose files have none. Each writes the plain dialogue that
// models of its family were trained on, without tools.

/** Before each turn, its role; after it, the same mark. */
const turns = (before: string, after: string, assistant = before.replace('{{ role }}', 'assistant')) =>
  `{{ bos_token }}{% for message in messages %}{% set role = message.role %}${before}{{ message.content | trim }}${after}{% endfor %}{% if add_generation_prompt %}${assistant}{% endif %}`;

/** For families that know no system message: it goes before what the first user says. */
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
