// Tools for a model whose template knows of none: they are described in the system message, and calls and results of
// earlier turns are written into the text, in the way most models have seen.

/** A function as OpenAI writes it. */
export interface WireTool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string | null | undefined;
    /** JSON schema of the arguments, which are an object. */
    readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
    /** Arguments are held to their schema, or refused where that cannot be. */
    readonly strict?: boolean | null | undefined;
  };
}

type PlainMessage = Readonly<Record<string, unknown>>;

export function describeTools(messages: readonly PlainMessage[], tools: readonly WireTool[]): PlainMessage[] {
  if (tools.length === 0) return [...messages];
  const list = tools.map(({ function: one }) => JSON.stringify(one)).join('\n');
  const description = [
    'You can call these functions:',
    `<tools>\n${list}\n</tools>`,
    'To call one, answer with its name and arguments as JSON:',
    '<tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call>',
  ].join('\n');
  const [first, ...rest] = messages;
  if (first?.role !== 'system') return [{ role: 'system', content: description }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${description}` }, ...rest];
}

export function withCallsAsText(message: PlainMessage): PlainMessage {
  const { role, content, tool_calls: calls, ...rest } = message;
  if (role === 'tool') return { role: 'user', content: `<tool_response>\n${content}\n</tool_response>` };
  if (!Array.isArray(calls) || calls.length === 0) return message;
  const spelled = calls.map(
    (call) =>
      `<tool_call>\n${JSON.stringify({ name: call.function?.name, arguments: call.function?.arguments })}\n</tool_call>`,
  );
  return { ...rest, role, content: [...(content ? [content] : []), ...spelled].join('\n') };
}
