// Sends a request as the reader has written it, and follows its answer as it comes.

export interface Written {
  readonly method: string;
  /** Without a leading slash: the page may lie in a folder of a proxy. */
  readonly path: string;
  readonly key: string | undefined;
  readonly body: string | FormData | undefined;
}

export interface Answer {
  readonly state: 'running' | 'done' | 'stopped' | 'failed';
  readonly status?: number;
  readonly type?: string;
  readonly text: string;
  readonly ms: number;
}

/** Of an answer that never ends, the last are shown. */
const MOST_CHARACTERS = 50_000;

export async function send(
  { method, path, key, body }: Written,
  signal: AbortSignal,
  onChange: (answer: Answer) => void,
): Promise<void> {
  const startMs = performance.now();
  let shown: Answer = { state: 'running', text: '', ms: 0 };
  const show = (change: Partial<Answer>) => {
    shown = { ...shown, ...change, ms: performance.now() - startMs };
    onChange(shown);
  };
  show({});
  try {
    const response = await fetch(path, {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}),
      },
      ...(body === undefined ? {} : { body }),
      signal,
      cache: 'no-store',
      credentials: 'omit',
    });
    show({ status: response.status, type: response.headers.get('content-type') ?? '' });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      show({ text: (shown.text + part.value).slice(-MOST_CHARACTERS) });
    }
    show({ state: 'done' });
  } catch (error) {
    if (signal.aborted) show({ state: 'stopped' });
    else show({ state: 'failed', text: `${shown.text}\n${String(error)}`.trim() });
  }
}

/** JSON is laid out; a stream stays as it came. */
export function readable({ text, type = '' }: Answer): string {
  if (!type.includes('application/json')) return text;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}

/** The same request for a shell. */
export function curlOf({ method, path, body }: Written, key: string | undefined): string {
  const url = new URL(path, location.href.replace(/[?#].*/, '')).href;
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [
    `curl${method === 'GET' || (method === 'POST' && body !== undefined) ? '' : ` -X ${method}`} ${quoted(url)}`,
    ...(key === undefined ? [] : [`-H "Authorization: Bearer ${key}"`]),
    ...(typeof body === 'string' ? ['-H "Content-Type: application/json"', `-d ${quoted(body)}`] : []),
    ...(body instanceof FormData
      ? [...body].map(([name, value]) =>
          typeof value === 'string'
            ? `-F ${quoted(`${name}=${value}`)}`
            : `-F ${quoted(`${name}=@${value.name}`)}`,
        )
      : []),
  ];
  return parts.join(' \\\n  ');
}
