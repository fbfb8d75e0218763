// The object `response`: what its request said, and what is known of its answer by now.

import type { TokenUsage } from '../../generation/answer-source.ts';
import type { ApiError } from '../http/errors.ts';
import { validity } from '../jobs/answer-shape.ts';
import type { OutputItem } from './items.ts';
import type { ResponsesBody } from './schema.ts';
import { shownTools } from './tools.ts';

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

interface ResponseState {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
  readonly status: ResponseStatus;
  readonly endedSeconds?: number;
  readonly error?: object | null;
  readonly output?: readonly OutputItem[];
  readonly stored: boolean;
  readonly usage?: (TokenUsage & { readonly reasoningTokens: number }) | null;
  readonly isValid?: boolean | null | undefined;
}

export function responseObject(given: ResponsesBody, state: ResponseState) {
  const { status, usage = null, output = [] } = state;
  return {
    id: state.id,
    object: 'response',
    created_at: state.createdSeconds,
    status,
    ...(status === 'completed' ? { completed_at: state.endedSeconds } : {}),
    background: given.background ?? false,
    error: state.error ?? null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: given.instructions ?? null,
    max_output_tokens: given.max_output_tokens ?? null,
    max_tool_calls: given.max_tool_calls ?? null,
    model: state.model,
    output,
    parallel_tool_calls: given.parallel_tool_calls ?? true,
    previous_response_id: given.previous_response_id ?? null,
    prompt_cache_key: given.prompt_cache_key ?? null,
    reasoning: { effort: given.reasoning?.effort ?? null, summary: given.reasoning?.summary ?? null },
    safety_identifier: given.safety_identifier ?? null,
    service_tier: 'default',
    store: state.stored,
    temperature: given.temperature ?? 1,
    text: { format: given.text?.format ?? { type: 'text' }, verbosity: 'medium' },
    tool_choice: given.tool_choice ?? 'auto',
    tools: shownTools(given.tools ?? []),
    top_logprobs: given.top_logprobs ?? 0,
    top_p: given.top_p ?? 1,
    truncation: given.truncation ?? 'disabled',
    usage: usage === null ? null : usageOf(usage),
    user: given.user ?? null,
    metadata: given.metadata ?? {},
    ...validity({ isValid: state.isValid }),
  };
}

function usageOf({
  promptTokens,
  cachedTokens,
  completionTokens,
  reasoningTokens,
}: NonNullable<ResponseState['usage']>): object {
  return {
    input_tokens: promptTokens,
    // Prefixes are always cached, and writing them is not accounted.
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}

/** The object has only a few codes; the event `error` has the server's own. */
export function responseError({ status, message }: Pick<ApiError, 'status' | 'message'>): object {
  if (status === 429) return { code: 'rate_limit_exceeded', message };
  return { code: status < 500 && status !== 408 ? 'invalid_prompt' : 'server_error', message };
}
