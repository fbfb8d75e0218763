// A streamed answer of a server: when its first token came, and how many tokens the server counted in the prompt.

/**
 * @param {string} url
 * @param {object} body of the request, without what asks for a stream
 * @returns {Promise<{ firstMs: number, promptTokens: number | undefined, text: string }>}
 */
export async function firstToken(url, body) {
  const began = performance.now();
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok || response.body === null) throw new Error(await response.text());
  let firstMs;
  let said = '';
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    said += part;
    // An end counts, too: tokens may have no text.
    if (/"(content|text)":\s*"[^"]|"finish_reason":\s*"/.test(said)) firstMs ??= performance.now() - began;
  }
  if (firstMs === undefined) throw new Error(`no token came: ${said.slice(-300)}`);
  const tokens = /"prompt_tokens":\s*(\d+)/.exec(said)?.[1];
  const chunks = said
    .split('\n')
    .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []));
  const text = chunks.map(({ choices }) => choices?.[0]?.delta?.content ?? choices?.[0]?.text ?? '').join('');
  return { firstMs, promptTokens: tokens === undefined ? undefined : Number(tokens), text };
}
