// Lines of an answer as they come.

/** Longer ones are no lines of this server. */
const MOST_CHARACTERS = 64 * 1024 * 1024;

/** Without their ends; `onBytes` hears of anything at all, a sign of life. */
export async function* linesOf(response: Response, onBytes?: () => void): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  // Pieces of a line that has not ended: joined once, so that a long line costs no more than its length.
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
    // Whoever stops reading wants no more to be sent.
    void reader.cancel().catch(() => {});
  }
}
