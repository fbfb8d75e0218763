// What the server writes to standard error: log lines in JSON. Anything else is somebody's cry: an uncaught
// exception, a rejection nobody handled, a warning of Node.

export class ServerLog {
  readonly #expected: (line: string) => boolean;
  readonly #onError: (message: string) => void;
  readonly #recent: string[] = [];
  readonly #cries: string[] = [];
  /** Log lines of errors, by what they say. */
  readonly errors: Record<string, number> = {};
  #rest = '';

  /** `expected`: plain lines that belong there; `onError` hears every error in the log. */
  constructor(expected: (line: string) => boolean, onError: (message: string) => void) {
    this.#expected = expected;
    this.#onError = onError;
  }

  take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() as string;
    for (const line of lines) this.#line(line);
  }

  /** Plain lines that nobody expected, the first few hundred. */
  get cries(): readonly string[] {
    return this.#cries;
  }

  recent(): string {
    return this.#recent.join('\n');
  }

  #line(line: string): void {
    this.#recent.push(line.slice(0, 400));
    if (this.#recent.length > 60) this.#recent.shift();
    const entry = parsed(line);
    if (entry === undefined) {
      if (line.trim() !== '' && !this.#expected(line) && this.#cries.length < 300) this.#cries.push(line);
      return;
    }
    if ((entry.level ?? 0) < 50) return;
    const message = `${entry.msg}: ${entry.err?.message ?? entry.detail ?? ''}`;
    this.#onError(message);
    const name = message.replace(/\d+/g, 'N').slice(0, 160);
    this.errors[name] = (this.errors[name] ?? 0) + 1;
  }
}

interface LogEntry {
  readonly level?: number;
  readonly msg?: string;
  readonly detail?: string;
  readonly err?: { readonly message?: string };
}

function parsed(line: string): LogEntry | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as LogEntry;
  } catch {
    return undefined;
  }
}
