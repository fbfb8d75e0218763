// What is asked of an upstream and what comes back, whatever its protocol. Requests are in OpenAI's words, as the bodies of
// every protocol of this server are.

import type { GenerationPart } from '../generation/answer-parts.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';

export interface UpstreamRequest {
  readonly kind: 'chat' | 'text';
  /** Fields that would change the answer, by OpenAI's names; no model, and nothing of how the answer is sent. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Answers to all prompts together. */
  readonly answers: number;
  /** Undefined: as long as the upstream makes it. */
  readonly maxTokens: number | undefined;
  /** A part of the conversation that no protocol has a place for, such as earlier reasoning. */
  readonly leftOut: readonly string[];
  readonly promptTokens: number;
}

export interface UpstreamUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

export type UpstreamEvent =
  /** There will be an answer. */
  | { readonly kind: 'accepted' }
  | { readonly kind: 'parts'; readonly index: number; readonly parts: readonly GenerationPart[] }
  | {
      readonly kind: 'finish';
      readonly index: number;
      readonly reason: FinishReason;
      readonly stop?: string | undefined;
    }
  | { readonly kind: 'usage'; readonly usage: UpstreamUsage }
  /** Nothing follows. */
  | { readonly kind: 'end' };

/** Reads one answer. Throws UpstreamError at what is none. */
export interface AnswerReader {
  /** One message of a stream. */
  event(data: string): readonly UpstreamEvent[];
  /** An answer that came whole, though a stream was asked for. */
  whole(text: string): readonly UpstreamEvent[];
}

export interface WireOptions {
  readonly model: string;
  readonly lengthField: string;
}

export interface UpstreamProtocol {
  /** The first field that it cannot carry, `extra` being those that the upstream takes besides; undefined: it carries all. */
  refusal(request: UpstreamRequest, extra: readonly string[]): Refusal | undefined;
  path(request: UpstreamRequest): string;
  headers(key: string | undefined): Readonly<Record<string, string>>;
  body(request: UpstreamRequest, options: WireOptions): object;
  reader(request: UpstreamRequest): AnswerReader;
  /** Where texts become vectors; undefined where the protocol has no such route. */
  readonly embeddingsPath: string | undefined;
}

export interface Refusal {
  readonly field: string;
  readonly problem: string;
}

/** What tokens a text has, about, where nobody counts them: no word of any vocabulary is known here. */
export function estimateTokens(characters: number): number {
  return Math.ceil(characters / 4);
}
