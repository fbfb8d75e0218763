// What is sent: the body of one completion request.

import type { Endpoint } from './target.ts';

export interface BodyOptions {
  readonly model: string;
  readonly endpoint: Endpoint;
  readonly temperature: number;
  readonly ignoreEos: boolean;
  /** Makes drawn answers the same each time. */
  readonly seed: number;
}

export function requestBody(options: BodyOptions, text: string, outputTokens: number): object {
  const { model, endpoint, temperature, ignoreEos, seed } = options;
  return {
    model,
    ...(endpoint === 'chat' ? { messages: [{ role: 'user', content: text }] } : { prompt: text }),
    max_tokens: outputTokens,
    temperature,
    ...(temperature > 0 ? { seed } : {}),
    ...(ignoreEos ? { ignore_eos: true } : {}),
  };
}

/** Streamed, with the usage at the end. */
export function streamedBody(options: BodyOptions, text: string, outputTokens: number): object {
  const streaming = { stream: true, stream_options: { include_usage: true } };
  return { ...requestBody(options, text, outputTokens), ...streaming };
}
