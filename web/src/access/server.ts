// Requests to the server, with this tab's key in a header, never in an address. Errors have one class, with the server's
// message. The key is kept for this tab alone, or on this device where its holder says so.

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
  #key: string | undefined;
  readonly #onUnauthorized: (refusal: Refusal, server: Server) => void;
  readonly #reads = new Set<Promise<unknown>>();
  #keyChange: Promise<unknown> | undefined;

  constructor(key: string | undefined, onUnauthorized: (refusal: Refusal, server: Server) => void) {
    this.#key = key;
    this.#onUnauthorized = onUnauthorized;
  }

  get key(): string | undefined {
    return this.#key;
  }

  /** `path` has no leading slash: the page may lie in a folder of a proxy. */
  async ask(path: string, ask: Ask = {}): Promise<Response> {
    await this.#keyChange;
    const asked = this.#ask(path, ask);
    if (ask.body === undefined) {
      this.#reads.add(asked);
      const ended = () => this.#reads.delete(asked);
      asked.then(ended, ended);
    }
    return asked;
  }

  /**
   * Makes the first key, from which on every request needs one: reads under way end before it, and what is asked
   * meanwhile waits and is sent with it. So no part of the page is refused, and the page stays where it is.
   */
  async makeFirstKey<Made extends { readonly key: string }>(path: string, body: object): Promise<Made> {
    const change = Promise.allSettled(this.#reads)
      .then(() => this.#ask(path, { body }))
      .then((response) => response.json() as Promise<Made>)
      .then((made) => {
        this.#key = made.key;
        return made;
      });
    this.#keyChange = change.catch(() => {});
    return change;
  }

  async #ask(path: string, { method, body, signal }: Ask): Promise<Response> {
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
    if (response.status === 401) this.#onUnauthorized(refusal, this);
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
  return sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME) ?? undefined;
}

/** `remember`: also for other tabs, and when the browser is opened again. */
export function storeKey(key: string, remember = false): void {
  sessionStorage.setItem(NAME, key);
  if (remember) localStorage.setItem(NAME, key);
}

/** From the device, too: a key that is refused or left is not offered again. */
export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
}
