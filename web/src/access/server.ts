// Requests to the server, with this tab's key in a header, never in an address. Errors have one class, with the server's
// message. The key is kept for this tab alone.

export class Refusal extends Error {
  readonly status: number;
  readonly code: string | undefined;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

interface Ask {
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

export function wordsFor(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  // The message of fetch says less.
  if (error instanceof TypeError) return 'the server does not answer';
  return error instanceof Error ? error.message : String(error);
}

const NAME = 'chairlift.key';

export function storedKey(): string | undefined {
  return sessionStorage.getItem(NAME) ?? undefined;
}

export function storeKey(key: string): void {
  sessionStorage.setItem(NAME, key);
}

export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
}
