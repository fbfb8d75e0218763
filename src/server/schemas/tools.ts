// The tools of a chat: what may be called, and whether something must be.

import { z } from 'zod';
import type { Tool } from '../../text/formats/format.ts';
import { badRequest } from '../errors.ts';

export const MAX_TOOLS = 512;

export const toolName = z
  .string()
  .regex(/^[\w.:-]{1,128}$/, 'must be 1 to 128 letters, digits, or any of _ . : -');

export const toolSchema = z.object({
  type: z.literal('function', 'the only type of tool is function'),
  function: z.looseObject({
    name: toolName,
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish().meta({ description: 'A JSON schema.' }),
    strict: z.boolean().nullish(),
  }),
});

const namedTool = z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) });
const allowedTools = z.object({
  type: z.literal('allowed_tools'),
  allowed_tools: z.object({ mode: z.enum(['auto', 'required']), tools: z.array(namedTool) }),
});

export const toolFields = {
  tools: z
    .array(toolSchema)
    .max(MAX_TOOLS)
    .meta({ description: 'Functions that the model may call.' })
    .optional(),
  tool_choice: z
    .union(
      [z.enum(['none', 'auto', 'required']), namedTool, allowedTools],
      'must be none, auto, required, or name a function',
    )
    .meta({ description: 'Whether a function is called: none, auto, required, or one by its name.' })
    .optional(),
  parallel_tool_calls: z
    .boolean()
    .meta({ description: 'Several calls in one answer. Default true.' })
    .optional(),
};

export type ToolBody = z.infer<z.ZodObject<typeof toolFields>>;
export type WireTool = z.infer<typeof toolSchema>;

export interface ToolOrder {
  /** That may be called. */
  readonly tools: readonly Tool[];
  /** As the template is shown them. */
  readonly shown: readonly WireTool[];
  readonly mustCall: boolean;
  readonly parallel: boolean;
}

export function toolOrder({
  tools: shown = [],
  tool_choice: choice,
  parallel_tool_calls: several,
}: ToolBody): ToolOrder {
  checkNames(shown);
  const parallel = several ?? true;
  if (choice === 'none') return { tools: [], shown: [], mustCall: false, parallel };
  const tools = shown.map(toTool);
  if (choice === undefined || choice === 'auto') return { tools, shown, mustCall: false, parallel };
  if (tools.length === 0) throw badRequest('tool_choice', 'needs tools');
  if (choice === 'required') return { tools, shown, mustCall: true, parallel };
  if (choice.type === 'function') {
    return { tools: [named(tools, choice.function.name)], shown, mustCall: true, parallel: false };
  }
  const { mode, tools: allowed } = choice.allowed_tools;
  return {
    tools: allowed.map(({ function: { name: wanted } }) => named(tools, wanted)),
    shown,
    mustCall: mode === 'required',
    parallel,
  };
}

function checkNames(tools: readonly WireTool[]): void {
  const names = tools.map(({ function: { name: own } }) => own);
  const twice = names.find((own, at) => names.indexOf(own) !== at);
  if (twice !== undefined) throw badRequest('tools', `there are two functions named '${twice}'`);
}

function named(tools: readonly Tool[], wanted: string): Tool {
  const found = tools.find(({ name: own }) => own === wanted);
  if (found === undefined)
    throw badRequest('tool_choice', `there is no function '${wanted.slice(0, 128)}' among the tools`);
  return found;
}

function toTool({ function: { name: own, description, parameters, strict } }: WireTool): Tool {
  return {
    name: own,
    description: description ?? undefined,
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: strict === true,
  };
}
