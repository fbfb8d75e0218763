// Server-sent events, and lines, of a response. They are read with fetch, which can send a key in a header; EventSource cannot.

interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

export async function* eventsOf(response: Response, onBytes?: () => void): AsyncGenerator<ServerEvent> {
  let event = 'message';
  let data: string[] = [];
  for await (const line of linesOf(response, onBytes)) {
    if (line === '') {
      if (data.length > 0) yield { event, data: data.join('\n') };
      event = 'message';
      data = [];
    } else if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
}

const MOST_CHARACTERS = 64 * 1024 * 1024;

/** Without line ends; `onBytes` is called for any bytes. */
export async function* linesOf(response: Response, onBytes?: () => void): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  // Joined once, so that a long line costs no more than its length.
  let pieces: string[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      onBytes?.();
      const parts = value.split('\n');
      const rest = parts.pop() as string;
      for (const part of parts) {
        pieces.push(part);
        yield pieces.join('').replace(/\r$/, '');
        pieces = [];
        length = 0;
      }
      pieces.push(rest);
      length += rest.length;
      if (length > MOST_CHARACTERS) throw new Error('the server sends a line without an end');
    }
    const last = pieces.join('');
    if (last !== '') yield last;
  } finally {
    // Where the caller stops reading, the server should stop sending.
    void reader.cancel().catch(() => {});
  }
}
