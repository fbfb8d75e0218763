// The requests whose answers are known: each is asked alone first, and whenever it is answered later, under whatever
// circumstances, the answer must be the same. All are greedy or seeded.

import { type KnownPath, protocols } from './protocols.ts';

export const FIRST_MODEL = 'demo';
export const SECOND_MODEL = 'tiny';

export interface KnownRequest {
  readonly name: string;
  readonly path: KnownPath;
  readonly body: Readonly<Record<string, unknown>>;
  /** Can be asked for as a stream. */
  readonly streams: boolean;
  /** The prompt alone takes a while: for clients that leave before the first token. */
  readonly longPrompt: boolean;
}

type Settings = Readonly<Record<string, unknown>>;

/** Ways to draw, each asked of both models as chat and as text. */
const ways: Readonly<Record<string, Settings>> = {
  greedy: { temperature: 0, max_tokens: 40 },
  sampled: { temperature: 0.9, seed: 11, max_tokens: 48 },
  'cut short': { temperature: 1.2, seed: 3, top_k: 40, top_p: 0.9, min_p: 0.02, max_tokens: 5 },
  typical: { temperature: 1, seed: 9, typical_p: 0.7, max_tokens: 24 },
  penalties: {
    temperature: 0.7,
    seed: 5,
    repetition_penalty: 1.3,
    presence_penalty: 0.5,
    frequency_penalty: 0.4,
    max_tokens: 60,
  },
  biased: { temperature: 0.5, seed: 6, logit_bias: { 40: 5, 41: -100 }, max_tokens: 16 },
  'three answers': { temperature: 1, seed: 21, n: 3, max_tokens: 32 },
  'two answers and stops': { temperature: 1, seed: 22, n: 2, stop: ['e', 'the'], max_tokens: 64 },
  stops: { temperature: 0.8, seed: 4, stop: [' a', '.', 'n'], min_tokens: 3, max_tokens: 80 },
  long: { temperature: 0.8, seed: 17, ignore_eos: true, max_tokens: 200 },
  'long and greedy': { temperature: 0, ignore_eos: true, max_tokens: 120, skip_special_tokens: false },
};

const sentence = 'The miller, the fox and the old queen walked through the forest to the sea. ';
/** A prompt that takes most of a context. */
export const longText = sentence.repeat(80);

function chat(model: string | undefined, content: string, settings: Settings): KnownRequest['body'] {
  const messages = [{ role: 'user', content }];
  return { ...(model === undefined ? {} : { model }), messages, ...settings };
}

function text(model: string | undefined, prompt: unknown, settings: Settings): KnownRequest['body'] {
  return { ...(model === undefined ? {} : { model }), prompt, ...settings };
}

function request(
  name: string,
  path: KnownPath,
  body: KnownRequest['body'],
  longPrompt = false,
): KnownRequest {
  return { name, path, body, streams: protocols[path].streamed !== undefined, longPrompt };
}

function waysOf(model: string): KnownRequest[] {
  return Object.entries(ways).flatMap(([way, settings]) => [
    request(
      `${model} chat, ${way}`,
      '/v1/chat/completions',
      chat(model, `Tell me a story about a fox named Milo. (${way})`, settings),
    ),
    request(
      `${model} text, ${way}`,
      '/v1/completions',
      text(model, `Once upon a time (${way}) there was a`, settings),
    ),
  ]);
}

function longPrompts(model: string, repeats: number): KnownRequest[] {
  const long = sentence.repeat(repeats);
  const sampled = { temperature: 0.9, seed: 31, max_tokens: 24 };
  return [
    request(`${model} long prompt`, '/v1/completions', text(model, long, sampled), true),
    request(
      `${model} long prompt, four answers`,
      '/v1/completions',
      text(model, `${long}Then`, { ...sampled, n: 4 }),
      true,
    ),
    request(
      `${model} long chat, three answers and stops`,
      '/v1/chat/completions',
      chat(model, `Copy: ${long}`, { ...sampled, n: 3, stop: ['sea'] }),
      true,
    ),
    // Shares its beginning with the others, and goes on in its own way.
    request(
      `${model} long prompt with logprobs`,
      '/v1/completions',
      text(model, `${long}But`, { ...sampled, logprobs: 3 }),
      true,
    ),
  ];
}

/** Answers that have nothing in common: together they want more blocks than there are. */
function stories(model: string, count: number): KnownRequest[] {
  return Array.from({ length: count }, (_, n) => {
    const settings = { temperature: 0.9, seed: 100 + n, ignore_eos: true, max_tokens: 140 };
    return request(`${model} story ${n}`, '/v1/completions', text(model, `${n} days ago`, settings));
  });
}

const logprobs: readonly KnownRequest[] = [
  request(
    'chat with logprobs',
    '/v1/chat/completions',
    chat(FIRST_MODEL, 'Name three colours.', { temperature: 0, logprobs: true, top_logprobs: 5 }),
  ),
  request(
    'bytes with logprobs',
    '/v1/chat/completions',
    chat(SECOND_MODEL, 'Hello', { temperature: 1, seed: 2, logprobs: true, top_logprobs: 2, max_tokens: 40 }),
  ),
  // Hundreds of kilobytes as a stream: more than sockets hold for a client that does not read.
  request(
    'a broad answer',
    '/v1/completions',
    text(SECOND_MODEL, 'So much to tell', {
      temperature: 1,
      seed: 77,
      n: 4,
      logprobs: 20,
      ignore_eos: true,
      max_tokens: 300,
    }),
  ),
];

const others: readonly KnownRequest[] = [
  request(
    'without a model',
    '/v1/chat/completions',
    chat(undefined, 'What is 345 + 278?', { temperature: 0 }),
  ),
  request(
    'without a model, sampled',
    '/v1/chat/completions',
    chat(undefined, 'Write a haiku about snow.', { temperature: 0.8, seed: 8 }),
  ),
  request(
    'text without settings',
    '/v1/completions',
    text(undefined, 'The capital of France', { temperature: 0 }),
  ),
  request('several turns', '/v1/chat/completions', {
    model: FIRST_MODEL,
    temperature: 0,
    messages: [
      { role: 'system', content: 'You are a helpful assistant.' },
      { role: 'user', content: 'What is the capital of Norway?' },
      { role: 'assistant', content: 'Oslo.' },
      { role: 'user', content: 'And of Sweden?' },
    ],
  }),
  request(
    'several prompts',
    '/v1/completions',
    text(FIRST_MODEL, ['One day', 'At night', 'In the morning'], {
      temperature: 0.6,
      seed: 1,
      n: 2,
      max_tokens: 20,
    }),
  ),
  request(
    'ids as prompt',
    '/v1/completions',
    text(FIRST_MODEL, [100, 200, 300, 400], { temperature: 0, max_tokens: 20 }),
  ),
  request(
    'echo',
    '/v1/completions',
    text(SECOND_MODEL, 'Echo: äöü', { temperature: 0.9, seed: 12, echo: true, max_tokens: 30 }),
  ),
  request(
    'stop by id',
    '/v1/completions',
    text(SECOND_MODEL, 'abc', { temperature: 1, seed: 13, stop_token_ids: [65, 66, 67], max_tokens: 90 }),
  ),
  request(
    'batch chat',
    '/v1/batch/chat/completions',
    chat(FIRST_MODEL, 'Count from one to ten.', { temperature: 0, max_tokens: 60 }),
  ),
  request(
    'batch text',
    '/v1/batch/completions',
    text(SECOND_MODEL, 'low and slow', { temperature: 1, seed: 99, max_tokens: 100 }),
  ),
  request('tokenize', '/tokenize', { model: FIRST_MODEL, prompt: sentence, return_token_strs: true }),
  request('tokenize chat', '/tokenize', {
    model: FIRST_MODEL,
    messages: [{ role: 'user', content: 'Hello' }],
  }),
  request('tokenize bytes', '/tokenize', { model: SECOND_MODEL, prompt: 'Grüße' }),
  request('detokenize', '/detokenize', { model: FIRST_MODEL, tokens: [300, 301, 302, 1000] }),
];

/** The same models by the other doors. */
function otherProtocols(model: string): KnownRequest[] {
  const question = `What does ${model} know about the sea?`;
  const messages = [{ role: 'user', content: question }];
  const options = { temperature: 0.8, seed: 41, num_predict: 30 };
  return [
    request(`${model} by Responses`, '/v1/responses', {
      model,
      input: question,
      temperature: 0,
      max_output_tokens: 40,
      store: false,
    }),
    request(`${model} by Responses, kept`, '/v1/responses', {
      model,
      input: [{ role: 'user', content: `${question} Tell me more.` }],
      temperature: 0,
      max_output_tokens: 24,
    }),
    request(`${model} by Messages`, '/v1/messages', { model, messages, temperature: 0, max_tokens: 40 }),
    request(`${model} by Ollama’s chat`, '/api/chat', { model, messages, options }),
    request(`${model} by Ollama’s generate`, '/api/generate', { model, prompt: question, options }),
    request(`${model} embeds`, '/v1/embeddings', { model, input: [question, sentence, 'the sea'] }),
  ];
}

/** For batches of very many. */
export const shortLine = request(
  'short line',
  '/v1/completions',
  text(SECOND_MODEL, 'a', { temperature: 0, max_tokens: 1 }),
);

/** Of each model. */
export const longStories: readonly (readonly KnownRequest[])[] = [
  stories(FIRST_MODEL, 18),
  stories(SECOND_MODEL, 18),
];

export const knownRequests: readonly KnownRequest[] = [
  ...longStories.flat(),
  ...waysOf(FIRST_MODEL),
  ...waysOf(SECOND_MODEL),
  ...longPrompts(FIRST_MODEL, 80),
  ...longPrompts(SECOND_MODEL, 20),
  ...logprobs,
  ...others,
  ...otherProtocols(FIRST_MODEL),
  ...otherProtocols(SECOND_MODEL),
  shortLine,
];
