// A client of the text completions as a stream: knows when each piece came, and can leave at any time.

import { type ClientRequest, request as httpRequest } from 'node:http';

export interface StreamBody {
  readonly prompt: string;
  readonly max_tokens: number;
  readonly temperature?: number;
  readonly seed?: number;
  readonly ignore_eos?: boolean;
}

/** What a client has in hand when its stream has ended. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly reason: string | undefined;
  /** Whether the closing mark came. */
  readonly done: boolean;
  /** An error body, or an error inside the stream. */
  readonly error: { readonly code?: string; readonly message: string } | undefined;
}

interface Chunk {
  readonly choices?: readonly { readonly text: string; readonly finish_reason: string | null }[];
  readonly error?: Answer['error'];
}

interface StreamOptions {
  readonly key?: string;
  /** Default /v1/completions. */
  readonly path?: string;
}

export class StreamClient {
  /** Rejects where the connection breaks or was left. */
  readonly answer: Promise<Answer>;
  readonly #request: ClientRequest;
  #pieces = 0;
  #ended = false;

  constructor(url: string, body: StreamBody, options: StreamOptions = {}) {
    const { key, path = '/v1/completions' } = options;
    const headers = {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    };
    // Without an agent each client has a connection of its own.
    this.#request = httpRequest(`${url}${path}`, { method: 'POST', headers, agent: false });
    this.answer = this.#read();
    // A client that leaves a stream need not see its end.
    this.answer
      .catch(() => {})
      .finally(() => {
        this.#ended = true;
      });
    this.#request.end(JSON.stringify({ ...body, stream: true }));
  }

  /** Pieces of text that came so far. */
  get pieces(): number {
    return this.#pieces;
  }

  /** Whether no more pieces come. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Breaks the connection. */
  leave(): void {
    this.#request.destroy();
  }

  #read(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#request.once('error', reject);
      this.#request.once('response', (response) => {
        const status = response.statusCode as number;
        let text = '';
        let reason: string | undefined;
        let done = false;
        let error: Answer['error'];
        const take = (chunk: Chunk) => {
          error ??= chunk.error;
          for (const choice of chunk.choices ?? []) {
            this.#pieces++;
            text += choice.text;
            reason = choice.finish_reason ?? reason;
          }
        };
        let rest = '';
        response.setEncoding('utf8').on('data', (data: string) => {
          rest += data;
          if (status !== 200) return;
          const events = rest.split('\n\n');
          rest = events.pop() as string;
          for (const event of events) {
            // Streams that can be resumed have ids before their data.
            const sent = event.slice(event.lastIndexOf('\n') + 1);
            if (sent === 'data: [DONE]') done = true;
            else if (sent.startsWith('data: ')) take(JSON.parse(sent.slice(6)) as Chunk);
          }
        });
        response.once('error', reject);
        response.once('end', () => {
          if (status !== 200) take(JSON.parse(rest) as Chunk);
          resolve({ status, text, reason, done, error });
        });
      });
    });
  }
}

/** The whole answer of one client. */
export function streamed(url: string, body: StreamBody, options: StreamOptions = {}): Promise<Answer> {
  return new StreamClient(url, body, options).answer;
}

/** The answers to each, one after the other: nobody has a neighbour. */
export async function answersAlone(
  url: string,
  bodies: readonly StreamBody[],
  options: StreamOptions = {},
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const body of bodies) answers.push(await streamed(url, body, options));
  return answers;
}
