// Puts an answer together from the chunks of its stream.

import { Refusal, type Server, wordsFor } from '../access/server.ts';
import { eventsOf } from '../stream/events.ts';
import type { Answer, Token, ToolCall } from './conversation.ts';

interface WireChance {
  readonly token: string;
  readonly logprob: number;
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly logprobs?: {
      readonly content?: readonly (WireChance & { readonly top_logprobs: readonly WireChance[] })[];
    } | null;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
  readonly error?: { readonly message?: string };
}

export class AnswerStream {
  readonly #leave = new AbortController();
  readonly #beganMs = performance.now();
  readonly #calls: ToolCall[] = [];
  readonly #tokens: Token[] = [];
  #answer: Answer;
  #stopped = false;

  constructor(model: string) {
    this.#answer = { state: 'streaming', model, content: '', reasoning: '', calls: [], tokens: [] };
  }

  get answer(): Answer {
    return { ...this.#answer, calls: [...this.#calls], tokens: [...this.#tokens] };
  }

  stop(): void {
    this.#stopped = true;
    this.#leave.abort();
  }

  /** Resolves when no more comes, however it ended. */
  async read(server: Server, body: () => object, onNews: () => void): Promise<void> {
    try {
      const ask = { body: body(), signal: this.#leave.signal };
      const response = await server.ask('v1/chat/completions', ask);
      const requestId = response.headers.get('x-request-id');
      if (requestId !== null) this.#with({ requestId });
      let ended = false;
      for await (const { data } of eventsOf(response)) {
        ended = data === '[DONE]';
        if (ended) break;
        this.#take(JSON.parse(data) as Chunk);
        onNews();
      }
      if (!ended) throw new Error('the answer broke off');
      this.#with({ state: 'done' });
    } catch (error) {
      if (this.#stopped) this.#with({ state: 'stopped' });
      else this.#with({ state: 'failed', problem: problemOf(error) });
    }
    this.#with({ totalMs: performance.now() - this.#beganMs });
  }

  #with(news: Partial<Answer>): void {
    this.#answer = { ...this.#answer, ...news };
  }

  #take({ choices, usage, error }: Chunk): void {
    if (error !== undefined) throw new Refusal(500, error.message ?? 'the answer failed');
    if (usage) {
      this.#with({
        promptTokens: usage.prompt_tokens,
        answerTokens: usage.completion_tokens,
        cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      });
    }
    const choice = choices?.[0];
    if (choice === undefined) return;
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    if (content) this.#with({ content: this.#answer.content + content });
    if (reasoning) this.#with({ reasoning: this.#answer.reasoning + reasoning });
    for (const call of calls ?? []) this.#takeCall(call.index, call.id, call.function);
    for (const { token, logprob, top_logprobs: top } of choice.logprobs?.content ?? []) {
      const others = top.map((other) => ({ text: other.token, logprob: other.logprob }));
      this.#tokens.push({ text: token, logprob, others });
    }
    const anything = content || reasoning || calls !== undefined;
    if (anything && this.#answer.firstTokenMs === undefined) {
      this.#with({ firstTokenMs: performance.now() - this.#beganMs });
    }
    if (choice.finish_reason) this.#with({ finish: choice.finish_reason });
  }

  #takeCall(at: number, id?: string, given?: { readonly name?: string; readonly arguments?: string }): void {
    const call = this.#calls[at] ?? { id: '', name: '', arguments: '' };
    this.#calls[at] = {
      id: id ?? call.id,
      name: given?.name ?? call.name,
      arguments: call.arguments + (given?.arguments ?? ''),
    };
  }
}

function problemOf(error: unknown): string {
  // Browsers call a broken stream just a network error.
  return error instanceof TypeError ? 'the connection to the server was lost' : wordsFor(error);
}
