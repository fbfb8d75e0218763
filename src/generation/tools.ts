// Which tools may be called, whether one must be, and what the model is shown of them.

import type { Tool } from '../text/formats/format.ts';
import { invalid } from './generation-error.ts';

export const toolNamePattern = /^[\w.:-]{1,128}$/;
export const toolNameProblem = 'must be 1 to 128 letters, digits, or any of _ . : -';

export interface ToolSelection {
  /** That may be called. */
  readonly tools: readonly Tool[];
  /** As the template is shown them. */
  readonly shown: readonly WireTool[];
  readonly mustCall: boolean;
  readonly parallel: boolean;
}

/** Whether something is called: as the model likes, not at all, something for certain, or of some by their names. */
export type ToolChoice =
  | 'auto'
  | 'none'
  | 'required'
  | { readonly allowed: readonly string[]; readonly mustCall: boolean };

interface ToolRequest {
  readonly tools: readonly WireTool[];
  readonly choice: ToolChoice;
  /** Whether there may be more than one call. */
  readonly parallel: boolean;
  /** What the asker calls them. */
  readonly names: { readonly tools: string; readonly choice: string };
}

export const noTools: ToolSelection = { tools: [], shown: [], mustCall: false, parallel: true };

export function selectTools({ tools: shown, choice, parallel, names }: ToolRequest): ToolSelection {
  checkNames(shown, names.tools);
  if (choice === 'none') return { ...noTools, parallel };
  const tools = shown.map(toTool);
  if (choice === 'auto') return { tools, shown, mustCall: false, parallel };
  if (tools.length === 0) throw invalid(names.choice, 'needs tools');
  if (choice === 'required') return { tools, shown, mustCall: true, parallel };
  const allowed = choice.allowed.map((name) => named(tools, name, names.choice));
  return { tools: allowed, shown, mustCall: choice.mustCall, parallel };
}

function checkNames(tools: readonly WireTool[], parameter: string): void {
  const names = tools.map(({ function: { name } }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw invalid(parameter, `there are two functions named '${twice}'`);
}

function named(tools: readonly Tool[], wanted: string, parameter: string): Tool {
  const found = tools.find(({ name }) => name === wanted);
  if (found !== undefined) return found;
  throw invalid(parameter, `there is no function '${wanted.slice(0, 128)}' among the tools`);
}

function toTool({ function: { name, description, parameters, strict } }: WireTool): Tool {
  return {
    name,
    description: description ?? undefined,
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: strict === true,
  };
}

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
