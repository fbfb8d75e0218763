// The routes that requests with known answers go to: how each is asked for a whole answer and for a stream, and in
// which form the answer comes.

import type { Form } from './readers.ts';

export interface Asking {
  readonly form: Form;
  /** What is added to the body. */
  readonly asks?: Readonly<Record<string, unknown>>;
}

export interface Protocol {
  readonly whole: Asking;
  /** Undefined where there is no stream. */
  readonly streamed?: Asking;
}

const completions: Protocol = {
  whole: { form: 'completion' },
  streamed: { form: 'stream', asks: { stream: true, stream_options: { include_usage: true } } },
};

/** Streams where nothing is said. */
const ollama: Protocol = {
  whole: { form: 'ollama', asks: { stream: false } },
  streamed: { form: 'ollama stream', asks: { stream: true } },
};

const plain: Protocol = { whole: { form: 'json' } };

export type KnownPath = keyof typeof routes;

const routes = {
  '/v1/chat/completions': completions,
  '/v1/completions': completions,
  '/v1/batch/chat/completions': completions,
  '/v1/batch/completions': completions,
  '/v1/responses': {
    whole: { form: 'responses' },
    streamed: { form: 'responses stream', asks: { stream: true } },
  },
  '/v1/messages': {
    whole: { form: 'messages' },
    streamed: { form: 'messages stream', asks: { stream: true } },
  },
  '/api/chat': ollama,
  '/api/generate': ollama,
  '/v1/embeddings': plain,
  '/tokenize': plain,
  '/detokenize': plain,
} satisfies Record<string, Protocol>;

export const protocols: Readonly<Record<KnownPath, Protocol>> = routes;
