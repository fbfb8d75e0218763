// The running program with a model that reasons: random weights, a vocabulary with marks for it, and a template that has begun it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { byteLevel } from '../fixtures/tokenizers/tokenizer-fixtures.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { float32Bytes, writeSafetensors } from '../support/safetensors-writer.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';

const marks = ['<think>', '</think>', '<tool_call>', '</tool_call>', '<|end|>'];
const firstMark = Object.keys(byteLevel.vocab).length;
const END = firstMark + marks.indexOf('<|end|>');
const template =
  "{% for message in messages %}{{ message.content }}\n{% endfor %}{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}";

function writeModel(folder: string): void {
  const [hidden, inner, vocab] = [32, 64, firstMark + marks.length];
  const config = {
    model_type: 'llama',
    architectures: ['LlamaForCausalLM'],
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    num_key_value_heads: 2,
    vocab_size: vocab,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    eos_token_id: END,
  };
  const random = seededRandom(5);
  const tensor = (name: string, ...shape: readonly number[]) => ({
    name,
    dtype: 'F32',
    shape,
    bytes: float32Bytes(Array.from({ length: shape.reduce((a, b) => a * b) }, () => random() - 0.5)),
  });
  const square = ['q', 'k', 'v', 'o'].map((one) =>
    tensor(`model.layers.0.self_attn.${one}_proj.weight`, hidden, hidden),
  );
  mkdirSync(folder, { recursive: true });
  const write = (name: string, content: object) => writeFileSync(join(folder, name), JSON.stringify(content));
  write('config.json', config);
  write('tokenizer_config.json', { eos_token: '<|end|>', chat_template: template });
  write('tokenizer.json', {
    model: { type: 'BPE', ...byteLevel },
    added_tokens: marks.map((content, at) => ({
      id: firstMark + at,
      content,
      special: content === '<|end|>',
      normalized: false,
    })),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
  });
  const tensors = [
    tensor('model.embed_tokens.weight', vocab, hidden),
    tensor('model.norm.weight', hidden),
    tensor('model.layers.0.input_layernorm.weight', hidden),
    tensor('model.layers.0.post_attention_layernorm.weight', hidden),
    tensor('model.layers.0.mlp.gate_proj.weight', inner, hidden),
    tensor('model.layers.0.mlp.up_proj.weight', inner, hidden),
    tensor('model.layers.0.mlp.down_proj.weight', hidden, inner),
    ...square,
  ];
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
}

const home = serverHome();
let server: ServerProcess;
let key: string;

beforeAll(async () => {
  key = home.createKey('tester', 'normal');
  writeModel(join(home.folder, 'models', 'thinker'));
  server = await home.start('--models-folder', join(home.folder, 'models'));
});

interface Heard {
  readonly reasoning: string;
  readonly content: string;
  readonly call: string;
  readonly ids: readonly number[];
}

const BUDGET = 6;
/** It neither ends by itself nor closes its reasoning. */
const asked = {
  model: 'thinker',
  messages: [{ role: 'user', content: 'Why?' }],
  max_tokens: 60,
  temperature: 0.8,
  return_token_ids: true,
  thinking_token_budget: BUDGET,
  logit_bias: { [END]: -100, [firstMark + 1]: -100 },
};

async function post(body: object): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ ...asked, ...body }),
  });
}

interface Delta {
  readonly reasoning_content?: string;
  readonly content?: string | null;
  readonly tool_calls?: readonly {
    readonly function: { readonly name?: string; readonly arguments: string };
  }[];
}

const heard = (parts: readonly Delta[], ids: readonly number[]): Heard => ({
  reasoning: parts.map((part) => part.reasoning_content ?? '').join(''),
  content: parts.map((part) => part.content ?? '').join(''),
  call: parts
    .flatMap((part) => part.tool_calls ?? [])
    .map((call) => `${call.function.name ?? ''}${call.function.arguments}`)
    .join(''),
  ids,
});

async function whole(body: object): Promise<Heard> {
  const response = await post(body);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const [{ message, token_ids: ids }] = JSON.parse(text).choices;
  return heard([message], ids);
}

async function streamed(body: object): Promise<Heard> {
  const text = await (await post({ ...body, stream: true })).text();
  const lines = text.split('\n').filter((line) => line.startsWith('data: {'));
  const choices = lines.flatMap((line) => JSON.parse(line.slice(6)).choices);
  return heard(
    choices.map(({ delta }) => delta),
    choices.flatMap(({ token_ids: ids }) => ids ?? []),
  );
}

/** How many tokens come before the one that ends the reasoning. */
const thought = ({ ids }: Heard) => ids.indexOf(firstMark + 1);

const yesOrNo = { structured_outputs: { choice: ['yes', 'no'] } };
const go = {
  tools: [
    {
      type: 'function',
      function: {
        name: 'go',
        strict: true,
        parameters: {
          type: 'object',
          properties: { to: { enum: ['park', 'home'] } },
          required: ['to'],
          additionalProperties: false,
        },
      },
    },
  ],
  tool_choice: 'required',
  parallel_tool_calls: false,
  max_tokens: 200,
};

describe('a limit of reasoning', () => {
  it.each([1, 2, 3])('ends it after so many tokens, and the answer goes on, with seed %i', async (seed) => {
    const answer = await whole({ seed });
    expect(thought(answer)).toBe(BUDGET);
    expect(answer.reasoning).not.toBe('');
    expect(answer.content).not.toBe('');
    expect(await streamed({ seed })).toEqual(answer);
  });

  it('of nothing leaves the answer alone', async () => {
    const answer = await whole({ seed: 1, thinking_token_budget: 0 });
    expect(thought(answer)).toBe(0);
    expect(answer.reasoning).toBe('');
  });

  it('counts nothing where the model ends it sooner', async () => {
    const answer = await whole({ seed: 1, logit_bias: { [END]: -100, [firstMark + 1]: 100 } });
    expect(thought(answer)).toBe(0);
  });

  it.each([1, 2])('goes before a choice of answers, with seed %i', async (seed) => {
    const answer = await whole({ seed, ...yesOrNo });
    expect(thought(answer)).toBe(BUDGET);
    expect(answer.content.trim()).toMatch(/^(yes|no)$/);
    expect(await streamed({ seed, ...yesOrNo })).toEqual(answer);
  });

  it.each([1, 2])('goes before a call, with seed %i', async (seed) => {
    const answer = await whole({ seed, ...go });
    expect(thought(answer)).toBe(BUDGET);
    expect(answer.call.replaceAll(/\s/g, '')).toMatch(/^go\{"to":"(park|home)"\}$/);
    expect(await streamed({ seed, ...go })).toEqual(answer);
  });

  it('is Anthropic’s budget, too', async () => {
    const response = await fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': key },
      body: JSON.stringify({
        model: 'thinker',
        messages: asked.messages,
        max_tokens: 1100,
        thinking: { type: 'enabled', budget_tokens: 1024 },
        logit_bias: asked.logit_bias,
        seed: 1,
      }),
    });
    const { content } = (await response.json()) as { content: readonly { type: string }[] };
    expect(content.map(({ type }) => type)).toEqual(['thinking', 'text']);
  });

  it('is the same among others, and with what the answer was expected to be', async () => {
    const alone = await whole({ seed: 7 });
    const together = await Promise.all([7, 8, 9, 7].map((seed) => whole({ seed })));
    expect(together[0]).toEqual(alone);
    expect(together[3]).toEqual(alone);
    const prediction = { type: 'content', content: `${alone.reasoning}</think>${alone.content}` };
    expect(await whole({ seed: 7, prediction })).toEqual(alone);
  });
});
