// The tools of a chat: which functions the model may call, and whether it must.

import { z } from 'zod';
import {
  selectTools,
  type ToolSelection,
  toolNamePattern,
  toolNameProblem,
} from '../../../generation/tools.ts';

export const MAX_TOOLS = 512;

export const toolName = z.string().regex(toolNamePattern, toolNameProblem);

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

type ToolBody = z.infer<z.ZodObject<typeof toolFields>>;

export function toolSelection({
  tools = [],
  tool_choice: choice = 'auto',
  parallel_tool_calls: several = true,
}: ToolBody): ToolSelection {
  const names = { tools: 'tools', choice: 'tool_choice' };
  if (typeof choice === 'string') return selectTools({ tools, choice, parallel: several, names });
  if (choice.type === 'function') {
    const only = { allowed: [choice.function.name], mustCall: true };
    return selectTools({ tools, choice: only, parallel: false, names });
  }
  const { mode, tools: allowed } = choice.allowed_tools;
  const some = { allowed: allowed.map(({ function: { name } }) => name), mustCall: mode === 'required' };
  return selectTools({ tools, choice: some, parallel: several, names });
}
