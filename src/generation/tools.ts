// Tools: which may or must be called, and how a model without tools in its template learns of them.

import { larkKeyword } from '../grammar/json/read-schema.ts';
import type { Tool } from '../text/formats/answer-part.ts';
import { invalid } from './generation-error.ts';

export const toolNamePattern = /^[\w.:-]{1,128}$/;
export const toolNameProblem = 'must be 1 to 128 letters, digits, or any of _ . : -';

export interface ToolSelection {
  readonly tools: readonly Tool[];
  readonly shown: readonly WireTool[];
  readonly mustCall: boolean;
  readonly parallel: boolean;
}

/** `allowed` names some of them. */
export type ToolChoice =
  | 'auto'
  | 'none'
  | 'required'
  | { readonly allowed: readonly string[]; readonly mustCall: boolean };

interface ToolRequest {
  readonly tools: readonly WireTool[];
  readonly choice: ToolChoice;
  readonly parallel: boolean;
  readonly names: { readonly tools: string; readonly choice: string };
}

export const noTools: ToolSelection = { tools: [], shown: [], mustCall: false, parallel: true };

export function selectTools({ tools: given, choice, parallel, names }: ToolRequest): ToolSelection {
  checkNames(given, names.tools);
  if (choice === 'none') return { ...noTools, parallel };
  const tools = given.map(toTool);
  const shown = given.map(withoutGrammar);
  if (choice === 'auto') return { tools, shown, mustCall: false, parallel };
  if (tools.length === 0) throw invalid(names.choice, 'needs tools');
  if (choice === 'required') return { tools, shown, mustCall: true, parallel };
  const allowed = choice.allowed.map((name) => named(tools, name, names.choice));
  return { tools: allowed, shown, mustCall: choice.mustCall, parallel };
}

function checkNames(tools: readonly WireTool[], parameter: string): void {
  const names = new Set<string>();
  for (const {
    function: { name },
  } of tools) {
    if (names.has(name)) throw invalid(parameter, `there are two functions named '${name}'`);
    names.add(name);
  }
}

function named(tools: readonly Tool[], wanted: string, parameter: string): Tool {
  const found = tools.find(({ name }) => name === wanted);
  if (found !== undefined) return found;
  throw invalid(parameter, `there is no function '${wanted.slice(0, 128)}' among the tools`);
}

/** Its description has the grammar already. */
function withoutGrammar(tool: WireTool): WireTool {
  const { parameters } = tool.function;
  const { input } = (parameters?.properties ?? {}) as { readonly input?: Readonly<Record<string, unknown>> };
  if (input?.[larkKeyword] === undefined) return tool;
  const { [larkKeyword]: _, ...rest } = input;
  return {
    ...tool,
    function: { ...tool.function, parameters: { ...parameters, properties: { input: rest } } },
  };
}

function toTool({ function: { name, description, parameters, strict } }: WireTool): Tool {
  return {
    name,
    description: description ?? undefined,
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: strict === true,
  };
}

export interface WireTool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string | null | undefined;
    readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
    /** Refused where the schema cannot be enforced. */
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

/** Writes calls and results of earlier turns as text, in the form most models have seen. */
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
