// Likelihoods of prompts through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { messages, sharedServer } from '../../../test/support/keyed-server.ts';
import { chatAnswerSchema, textAnswerSchema } from './schemas/answers.ts';

const { post, answer } = sharedServer();
const text = async (body: object) =>
  textAnswerSchema.parse(await answer('/v1/completions', { temperature: 0, ...body }));
const first = async (body: object) => (await text(body)).choices[0];

const prompt = 'Once upon a time there was a fox named Milo. '.repeat(12);

describe('echo with logprobs', () => {
  it('begins with the prompt and its log-probabilities, which are those of an answer of the same tokens', async () => {
    const plain = await first({ prompt, max_tokens: 6, logprobs: 3 });
    const echoed = await first({ prompt, max_tokens: 6, logprobs: 3, echo: true });
    expect(echoed?.text).toBe(prompt + plain?.text);
    const logprobs = echoed?.logprobs;
    const count = (logprobs?.tokens.length ?? 0) - (plain?.logprobs?.tokens.length ?? 0);
    expect(logprobs?.token_logprobs[0]).toBeNull();
    expect(logprobs?.top_logprobs[0]).toBeNull();
    expect(logprobs?.tokens.slice(0, count).join('')).toBe(prompt);
    expect(logprobs?.token_logprobs.slice(count)).toEqual(plain?.logprobs?.token_logprobs);
    for (const [at, offset] of (logprobs?.text_offset ?? []).entries()) {
      expect(echoed?.text.startsWith(logprobs?.tokens[at] as string, offset)).toBe(true);
    }
    // What was sampled is as likely as it is as a part of a prompt.
    const again = await first({ prompt: echoed?.text, max_tokens: 0, logprobs: 3, echo: true });
    expect(again?.text).toBe(echoed?.text);
    expect(again?.logprobs?.token_logprobs).toEqual(logprobs?.token_logprobs);
    expect(again?.logprobs?.top_logprobs).toEqual(logprobs?.top_logprobs);
    expect(again?.finish_reason).toBe('length');
  });

  it('shows all tokens, the one that ends an answer too: programs count them', async () => {
    const ended = '<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n';
    const whole = await text({ prompt: ended, max_tokens: 100, logprobs: 1, echo: true });
    expect(whole.choices[0]?.finish_reason).toBe('stop');
    expect(whole.choices[0]?.logprobs?.tokens.length).toBe(whole.usage?.total_tokens);
  });

  it('streams what it answers whole, for several prompts and choices', async () => {
    const body = { prompt: ['A fox', 'The river was'], n: 2, seed: 5, temperature: 1, max_tokens: 4 };
    const whole = await text({ ...body, echo: true, logprobs: 2 });
    const response = await post('/v1/completions', { ...body, echo: true, logprobs: 2, stream: true });
    const chunks = response.body
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => textAnswerSchema.parse(JSON.parse(line.slice(6))));
    for (const { index, text: expected, logprobs } of whole.choices) {
      const own = chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
      expect(own.map((choice) => choice.text).join('')).toBe(expected);
      expect(own.flatMap((choice) => choice.logprobs?.token_logprobs ?? [])).toEqual(
        logprobs?.token_logprobs,
      );
      expect(own.flatMap((choice) => choice.logprobs?.text_offset ?? [])).toEqual(logprobs?.text_offset);
    }
  });
});

describe('prompt_logprobs', () => {
  it('have each token of the prompt by its id, with its rank, and the likeliest', async () => {
    const echoed = await first({ prompt, max_tokens: 0, logprobs: 0, echo: true });
    const scored = await text({ prompt, max_tokens: 2, prompt_logprobs: 2, n: 2 });
    const { tokens } = (await answer('/tokenize', { prompt })) as { tokens: number[] };
    for (const { prompt_logprobs: list } of scored.choices) {
      expect(list?.[0]).toBeNull();
      expect(list?.length).toBe(tokens.length);
      for (const [at, token] of tokens.entries()) {
        const entries = list?.[at];
        if (entries === null || entries === undefined) continue;
        const own = entries[String(token)];
        expect(own?.logprob).toBe(echoed?.logprobs?.token_logprobs[at]);
        expect(own?.decoded_token).toBe(echoed?.logprobs?.tokens[at]);
        const ranks = Object.values(entries).map(({ rank }) => rank);
        expect(ranks).toEqual(expect.arrayContaining([1, 2]));
        expect(ranks.length).toBe((own?.rank ?? 0) <= 2 ? 2 : 3);
      }
    }
    expect(scored.usage?.prompt_tokens).toBe(tokens.length);
  });

  it('come with chats, too', async () => {
    const body = { messages, max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
    const { prompt_logprobs: list, usage } = chatAnswerSchema.parse(
      await answer('/v1/chat/completions', body),
    );
    expect(list?.length).toBe(usage.prompt_tokens);
    expect(list?.slice(1).every((entries) => Object.keys(entries ?? {}).length === 1)).toBe(true);
  });
});
