import { describe, expect, it } from 'vitest';
import { configOptions } from '../config-options.ts';
import { chatTemplate } from './chat-template.ts';
import { namedTemplates } from './chosen-template.ts';

const specialTokens = { bos_token: '<s>', eos_token: '</s>' };
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi ' },
  { role: 'assistant', content: 'Hello.' },
  { role: 'user', content: 'Bye' },
];

function rendered(name: string): string {
  const template = namedTemplates[name] as string;
  return chatTemplate({ template, specialTokens }).render({ messages, addGenerationPrompt: true });
}

describe('a template by its name', () => {
  it.each([
    [
      'chatml',
      '<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n',
    ],
    [
      'gemma',
      '<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n',
    ],
    ['llama2', '<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]'],
    [
      'llama3',
      '<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    ],
    ['mistral', '<s>[INST] Be brief.\n\nHi [/INST] Hello.</s>[INST] Bye [/INST]'],
    [
      'phi3',
      '<s><|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello.<|end|>\n<|user|>\nBye<|end|>\n<|assistant|>\n',
    ],
    ['vicuna', '<s>Be brief.\n\nUSER: Hi\nASSISTANT: Hello.</s>\nUSER: Bye\nASSISTANT:'],
    [
      'zephyr',
      '<s><|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello.</s>\n<|user|>\nBye</s>\n<|assistant|>\n',
    ],
  ])('writes what models of its family know: %s', (name, expected) => {
    expect(rendered(name)).toBe(expected);
  });

  it('is named where the setting is explained', () => {
    for (const name of Object.keys(namedTemplates)) {
      expect(configOptions.chatTemplate.meaning).toContain(`\`${name}\``);
    }
  });
});
