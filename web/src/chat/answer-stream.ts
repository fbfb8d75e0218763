// Puts an answer together from the chunks of its stream. Where the server is away it waits, and goes on when it is back.

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
  readonly timings?: { readonly predicted_n?: number; readonly predicted_per_second?: number | null };
  readonly error?: { readonly message?: string; readonly code?: string | null };
}

/** What a server says that is loading, restarting, or behind a proxy that does not find it. */
const AWAY = [502, 503, 504];
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/** The body of a request; of one that goes on, with what there is of the answer. Without it, the answer begins anew. */
type Body = (begun: Answer | undefined) => Promise<{ readonly body: object; readonly continues: boolean }>;

export class AnswerStream {
  readonly #leave = new AbortController();
  readonly #beganMs = performance.now();
  readonly #calls: ToolCall[] = [];
  readonly #tokens: Token[] = [];
  #answer: Answer;
  #stopped = false;
  #cannotGoOn = false;
  /** What the answer was when this began: it is never written over. */
  readonly #begun: Answer | undefined;

  /** `begun`: an answer that was stopped or cut off, and goes on. */
  constructor(model: string, begun?: Answer) {
    this.#begun = begun;
    this.#answer = emptyAnswer(model);
    if (begun === undefined) return;
    const { problem: _, finish: __, ...rest } = begun;
    this.#answer = { ...rest, state: 'streaming' };
    this.#calls.push(...begun.calls);
    this.#tokens.push(...begun.tokens);
  }

  get answer(): Answer {
    return { ...this.#answer, calls: [...this.#calls], tokens: [...this.#tokens] };
  }

  /** Set where the model cannot continue the answer that was begun, as models of other servers may not. */
  get cannotGoOn(): boolean {
    return this.#cannotGoOn;
  }

  stop(): void {
    this.#stopped = true;
    this.#leave.abort();
  }

  /** Resolves when no more comes, however it ended. */
  async read(server: Server, body: Body, onNews: () => void): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      try {
        await this.#readOnce(server, body, () => {
          pauseMs = FIRST_PAUSE_MS;
          onNews();
        });
        this.#with({ state: 'done' });
        break;
      } catch (error) {
        if (this.#stopped || !isAway(error)) {
          if (this.#stopped) this.#with({ state: 'stopped' });
          else this.#with({ state: 'failed', problem: failureWords(error) });
          break;
        }
        this.#with({
          state: 'waiting',
          problem: `${wordsFor(error)}: the answer goes on when the server is back`,
        });
        onNews();
        await this.#pause(pauseMs);
        pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
      }
    }
    this.#with({ totalMs: performance.now() - this.#beganMs });
  }

  async #readOnce(server: Server, body: Body, onNews: () => void): Promise<void> {
    const { content, reasoning } = this.#answer;
    const begun = content === '' && reasoning === '' && this.#calls.length === 0 ? undefined : this.answer;
    const { signal } = this.#leave;
    const { body: asked, continues } = await body(this.#cannotGoOn ? undefined : begun);
    const response = await server.ask('v1/chat/completions', { body: asked, signal }).catch((error) => {
      this.#cannotGoOn = continues && isUnsupported(error);
      if (!this.#cannotGoOn || this.#begun !== undefined) throw error;
      return undefined;
    });
    if (response === undefined) return this.#readOnce(server, body, onNews);
    if (begun !== undefined && !continues) this.#beginAnew();
    this.#recover();
    const requestId = response.headers.get('x-request-id');
    if (requestId !== null) this.#with({ requestId });
    onNews();
    let ended = false;
    try {
      for await (const { data } of eventsOf(response)) {
        ended = data === '[DONE]';
        if (ended) break;
        this.#take(JSON.parse(data) as Chunk);
        onNews();
      }
    } catch (error) {
      // Browsers call a broken stream just a network error.
      throw error instanceof TypeError ? new ConnectionLost() : error;
    }
    if (!ended) throw new ConnectionLost();
  }

  #beginAnew(): void {
    this.#answer = emptyAnswer(this.#answer.model);
    this.#calls.length = 0;
    this.#tokens.length = 0;
  }

  #recover(): void {
    const { problem: _, ...rest } = this.#answer;
    this.#answer = { ...rest, state: 'streaming' };
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const { signal } = this.#leave;
      if (signal.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #with(news: Partial<Answer>): void {
    this.#answer = { ...this.#answer, ...news };
  }

  #take({ choices, usage, timings, error }: Chunk): void {
    if (error !== undefined)
      throw new Refusal(500, error.message ?? 'the answer failed', error.code ?? undefined);
    if (timings?.predicted_per_second && (timings.predicted_n ?? 0) > 1) {
      this.#with({ tokensPerSecond: timings.predicted_per_second });
    }
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

class ConnectionLost extends Error {
  constructor() {
    super('the connection to the server was lost');
  }
}

/** The server's words are for programs; a reader is told what to do as well. */
function failureWords(error: unknown): string {
  const isTooLong = error instanceof Refusal && error.code === 'context_length_exceeded';
  if (!isTooLong) return wordsFor(error);
  return `${wordsFor(error)}. Begin a new conversation, or edit an earlier message and go on from there.`;
}

function isUnsupported(error: unknown): boolean {
  return error instanceof Refusal && error.code === 'unsupported_parameter';
}

function isAway(error: unknown): boolean {
  if (error instanceof Refusal) {
    // What an upstream says, and what a model does not fit into, is final: asked again, it would cost again.
    if (/^(upstream_|model_)/.test(error.code ?? '')) return error.code === 'upstream_unreachable';
    return AWAY.includes(error.status) || error.code === 'shutting_down';
  }
  return error instanceof ConnectionLost || error instanceof TypeError;
}

function emptyAnswer(model: string): Answer {
  return { state: 'streaming', model, content: '', reasoning: '', calls: [], tokens: [] };
}
