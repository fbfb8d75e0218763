// Reads server-sent events: the data of each, as text, however the bytes are cut.

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, void> {
  let rest = '';
  let data: string[] = [];
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    // A carriage return at the end may be half of a line's end.
    const lines = (rest + decoder.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''));
      if (line !== '' || data.length === 0) continue;
      yield data.join('\n');
      data = [];
    }
  }
}
