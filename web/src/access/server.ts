// The server, as the page asks it: with this tab's key in a header, never in an address. Refusals become one kind of
// error that says what the server said.

export class Refusal extends Error {
  readonly status: number;
  readonly code: string | undefined;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Ask {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: object;
  readonly signal?: AbortSignal;
}

export class Server {
  readonly #key: string | undefined;
  readonly #onUnauthorized: (refusal: Refusal) => void;

  constructor(key: string | undefined, onUnauthorized: (refusal: Refusal) => void) {
    this.#key = key;
    this.#onUnauthorized = onUnauthorized;
  }

  get hasKey(): boolean {
    return this.#key !== undefined;
  }

  /** `path` has no leading slash: the page may lie in a folder of a proxy. */
  async ask(path: string, { method, body, signal }: Ask = {}): Promise<Response> {
    const response = await fetch(path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
      cache: 'no-store',
      credentials: 'omit',
    });
    if (response.ok) return response;
    const refusal = await refusalOf(response);
    if (response.status === 401) this.#onUnauthorized(refusal);
    throw refusal;
  }

  async json<Answer>(path: string, ask?: Ask): Promise<Answer> {
    return (await this.ask(path, ask)).json() as Promise<Answer>;
  }
}

async function refusalOf(response: Response): Promise<Refusal> {
  const plain = `the server answered ${response.status}`;
  try {
    const { error } = (await response.json()) as { error?: string | { message?: string; code?: string } };
    if (typeof error === 'string') return new Refusal(response.status, error);
    return new Refusal(response.status, error?.message ?? plain, error?.code);
  } catch {
    return new Refusal(response.status, plain);
  }
}

/** What went wrong, for a person. */
export function wordsFor(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  // What fetch throws where nobody answers says less.
  if (error instanceof TypeError) return 'the server does not answer';
  return error instanceof Error ? error.message : String(error);
}
