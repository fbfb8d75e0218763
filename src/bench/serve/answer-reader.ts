// Reads the events of one streamed completion: when output came, how it ended, what the server counted.

import type { Usage } from './request-record.ts';
import { messageIn } from './target.ts';

interface Chunk {
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: Readonly<Record<string, unknown>>;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: unknown;
}

/** Where a delta may hold output; a role alone is none. */
const outputFields = ['content', 'reasoning_content', 'reasoning', 'tool_calls', 'refusal'] as const;

export class AnswerReader {
  readonly chunkMs: number[] = [];
  usage: Usage | undefined;
  finishReason: string | undefined;
  /** When the closing mark came. */
  doneMs: number | undefined;
  /** What the server said in the midst of its answer. */
  error: string | undefined;

  /** Ended as an answer should. */
  get isComplete(): boolean {
    return this.error === undefined && (this.doneMs !== undefined || this.finishReason !== undefined);
  }

  take(data: string, nowMs: number): void {
    if (data === '[DONE]') {
      this.doneMs ??= nowMs;
      return;
    }
    let chunk: Chunk;
    try {
      chunk = JSON.parse(data) as Chunk;
    } catch {
      this.error ??= `an event that is not JSON: ${data.slice(0, 100)}`;
      return;
    }
    if (chunk.error !== undefined && chunk.error !== null) this.error ??= messageIn(data);
    if (chunk.usage) this.usage = usageOf(chunk.usage) ?? this.usage;
    const [choice] = chunk.choices ?? [];
    if (choice === undefined) return;
    if (choice.text || outputFields.some((field) => hasOutput(choice.delta?.[field])))
      this.chunkMs.push(nowMs);
    this.finishReason = choice.finish_reason ?? this.finishReason;
  }
}

function hasOutput(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : typeof value === 'string' && value !== '';
}

function usageOf(usage: NonNullable<Chunk['usage']>): Usage | undefined {
  const { prompt_tokens: promptTokens, completion_tokens: outputTokens } = usage;
  if (promptTokens === undefined || outputTokens === undefined) return undefined;
  return { promptTokens, outputTokens, cachedTokens: usage.prompt_tokens_details?.cached_tokens };
}
