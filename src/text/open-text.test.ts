import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { byteLevel, byteLevelGguf, ggufMetadata } from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { openModelFiles } from '../weights/open-model.ts';
import type { ChosenTemplate } from './chosen-template.ts';
import { type ModelText, openText } from './open-text.ts';

const messages = [{ role: 'user', content: 'Hi' }];
const render = (text: ModelText, tools?: readonly unknown[]): string | undefined =>
  text.template?.render({ messages, addGenerationPrompt: true, tools });

describe('text of a GGUF', () => {
  it('has the template with its special tokens', () => {
    const entries = { ...byteLevelGguf('qwen2', ['<s>']), 'ggml.bos_token_id': 1200 };
    const template = '{{ bos_token }}{{ messages[0].content }}';
    expect(
      render(openText({ format: 'gguf', ...ggufMetadata({ ...entries, chat_template: template }) })),
    ).toBe('<s>Hi');
    expect(openText({ format: 'gguf', ...ggufMetadata(entries) }).template).toBeUndefined();
  });

  it('takes a chosen template where it has none, or where that is to be replaced', () => {
    const entries = { ...byteLevelGguf('qwen2', ['<s>']), 'ggml.bos_token_id': 1200 };
    const open = (chosen: Partial<ChosenTemplate>, own: object = {}) =>
      render(
        openText(
          { format: 'gguf', ...ggufMetadata({ ...entries, ...own }) },
          { template: '{{ bos_token }}chosen', named: false, replaces: false, ...chosen },
        ),
      );
    const own = { chat_template: 'own' };
    expect(open({})).toBe('<s>chosen');
    expect(open({}, own)).toBe('own');
    expect(open({ replaces: true }, own)).toBe('<s>chosen');
    // One of ours does not begin a text in a way that the model does not want.
    expect(open({ named: true })).toBe('chosen');
    expect(open({ named: true }, { 'ggml.add_bos_token': true })).toBe('<s>chosen');
  });

  it('names the key of a template that cannot be read', () => {
    const gguf = ggufMetadata({ ...byteLevelGguf('qwen2'), chat_template: '{% for %}' });
    expect(() => openText({ format: 'gguf', ...gguf })).toThrow(/fixture\.gguf: tokenizer\.chat_template: /);
  });
});

describe('text of a folder', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'chairlift-text-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const write = (name: string, content: unknown): void =>
    writeFileSync(join(directory, name), typeof content === 'string' ? content : JSON.stringify(content));
  const writeTokenizer = (): void =>
    write('tokenizer.json', {
      model: { type: 'BPE', ...byteLevel },
      added_tokens: [{ id: 1200, content: '<s>', special: true }],
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
      decoder: { type: 'ByteLevel' },
    });
  const open = (): ModelText => openText({ format: 'safetensors', directory, config: { eos_token_id: 5 } });

  it('takes a chosen template in place of its own, though that cannot be read', () => {
    writeTokenizer();
    write('tokenizer_config.json', { bos_token: '<s>', chat_template: '{% for %}' });
    const source = { format: 'safetensors', directory, config: {} } as const;
    const chosen = { template: '{{ bos_token }}chosen', named: false, replaces: true };
    expect(render(openText(source, chosen))).toBe('<s>chosen');
  });

  it('has no template where no file holds one', () => {
    writeTokenizer();
    const text = open();
    expect(text.template).toBeUndefined();
    expect([...text.tokenizer.eosIds]).toEqual([5]);
    expect(text.tokenizer.decode(text.tokenizer.encode('The lift'))).toBe('The lift');
  });

  it('reads the template among the tokenizer’s settings', () => {
    writeTokenizer();
    write('tokenizer_config.json', { bos_token: '<s>', chat_template: '{{ bos_token }}one' });
    expect(render(open())).toBe('<s>one');
  });

  it('reads named templates', () => {
    writeTokenizer();
    const chat_template = [
      { name: 'default', template: 'plain' },
      { name: 'tool_use', template: 'tools' },
    ];
    write('tokenizer_config.json', { chat_template });
    expect(render(open())).toBe('plain');
    expect(render(open(), [{}])).toBe('tools');
  });

  it('reads the template of a processor where the tokenizer has none', () => {
    writeTokenizer();
    write('tokenizer_config.json', { bos_token: '<s>' });
    write('chat_template.json', { chat_template: '{{ bos_token }}seen' });
    expect(render(open())).toBe('<s>seen');
  });

  it('prefers chat_template.jinja', () => {
    writeTokenizer();
    write('tokenizer_config.json', { chat_template: 'settings' });
    write('chat_template.jinja', 'file');
    expect(render(open())).toBe('file');
  });

  it('says what to do where tokenizer.json is missing', () => {
    write('tokenizer.model', 'x');
    expect(open).toThrow(/tokenizer\.json: is missing; tokenizer\.model alone is not supported\. Download/);
  });

  it('names the file that is not JSON', () => {
    writeTokenizer();
    write('generation_config.json', '{');
    expect(open).toThrow(/generation_config\.json/);
  });
});

describe.skipIf(!hasTestdata)('text of shared models (skipped where shared test data is absent)', () => {
  interface Golden {
    readonly cases: readonly { readonly text: string; readonly raw_tokenizer_ids: readonly number[] }[];
  }

  it('encodes the stories’ texts as Hugging Face tokenizers does', () => {
    const model = openModelFiles(testdata('tinystories-656k'));
    model.weights.close();
    const { tokenizer } = openText(model);
    const golden = JSON.parse(readFileSync(testdata('tinystories-656k', 'golden.json'), 'utf8')) as Golden;
    expect(golden.cases.length).toBeGreaterThan(0);
    for (const { text, raw_tokenizer_ids } of golden.cases) {
      expect([...tokenizer.encode(text, { special: true, bos: true })]).toEqual(raw_tokenizer_ids);
    }
  });

  it.each(['llama', 'qwen2', 'qwen3'])('agrees between folder and GGUF of %s', (name) => {
    const [folder, gguf] = [testdata('arch', name), testdata('arch', name, 'model-bf16.gguf')].map((path) => {
      const model = openModelFiles(path);
      model.weights.close();
      return openText(model);
    }) as [ModelText, ModelText];
    const prompt = render(folder) as string;
    expect(prompt).toBe('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
    expect(render(gguf)).toBe(prompt);
    const options = { special: true } as const;
    expect(gguf.tokenizer.encode(prompt, options)).toEqual(folder.tokenizer.encode(prompt, options));
    expect(gguf.tokenizer.eosIds.has(2)).toBe(true);
    expect(folder.tokenizer.eosIds.has(2)).toBe(true);
  });
});
