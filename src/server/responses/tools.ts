// The tools of a response. To the model each is a function: a custom tool is one that takes a text, and a namespace is part of
// the names of its functions. Tools that only OpenAI's service runs are left out, with a warning.

import { z } from 'zod';
import { larkKeyword } from '../../grammar/json/read-schema.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import { toolSchema } from '../openai/schemas/tools.ts';
import { unknownType } from './items.ts';

const MAX_TOOLS = 512;

/** Tools that run in OpenAI's service, or that its models alone were trained to call. */
const hostedTypes = [
  'web_search',
  'web_search_2025_08_26',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'file_search',
  'computer',
  'computer_use',
  'computer_use_preview',
  'code_interpreter',
  'image_generation',
  'mcp',
  'local_shell',
  'shell',
  'apply_patch',
  'tool_search',
  'programmatic_tool_calling',
] as const;

const { name } = toolSchema.shape.function.shape;
const description = z.string().nullish();

const functionTool = z.object({
  type: z.literal('function'),
  name,
  description,
  parameters: z.record(z.string(), z.unknown()).nullish().meta({ description: 'A JSON schema.' }),
  strict: z
    .boolean()
    .nullish()
    .meta({ description: 'Arguments must be what the schema says. Default true.' }),
});

const customTool = z.object({
  type: z.literal('custom'),
  name,
  description,
  format: z
    .discriminatedUnion(
      'type',
      [
        z.object({ type: z.literal('text') }),
        z.object({
          type: z.literal('grammar'),
          syntax: z.enum(['lark', 'regex']),
          definition: z.string().min(1),
        }),
      ],
      'must be of type text or grammar',
    )
    .nullish()
    .meta({ description: 'What the input may be. Default: any text.' }),
});

const namespaceTool = z.object({
  type: z.literal('namespace'),
  name,
  description,
  tools: z
    .array(z.discriminatedUnion('type', [functionTool, customTool], 'must be function or custom'))
    .max(MAX_TOOLS),
});

const hostedTool = z.looseObject({ type: z.enum(hostedTypes) });

export const toolsSchema = z
  .array(
    z.discriminatedUnion('type', [functionTool, customTool, namespaceTool, hostedTool], {
      error: unknownType('tools', 'function, custom and namespace are'),
    }),
  )
  .max(MAX_TOOLS)
  .refine(
    (tools) =>
      tools.reduce((sum, one) => sum + (one.type === 'namespace' ? one.tools.length : 1), 0) <= MAX_TOOLS,
    `are more than ${MAX_TOOLS}, with those in namespaces`,
  )
  .meta({ description: 'Functions and custom tools that the model may call, alone or in namespaces.' });

const named = z.object({ type: z.enum(['function', 'custom']), name: z.string() });

export const toolChoiceSchema = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    named,
    z.object({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.union([named, hostedTool])).max(MAX_TOOLS),
    }),
  ],
  'must be none, auto, required, a function or custom tool by its name, or allowed_tools',
);

type Tool = z.infer<typeof toolsSchema>[number];
type OwnTool = z.infer<typeof functionTool> | z.infer<typeof customTool>;
type Choice = z.infer<typeof toolChoiceSchema>;

/** How clients know a tool that the model calls by one name. */
export interface KnownTool {
  readonly name: string;
  readonly namespace?: string;
  readonly custom: boolean;
}

export function isStrict({ strict }: z.infer<typeof functionTool>): boolean {
  return strict ?? true;
}

/** Two underscores: not every format for calls can spell a dot in a name. */
export function modelName(tool: Pick<KnownTool, 'name' | 'namespace'>): string {
  return tool.namespace == null ? tool.name : `${tool.namespace}__${tool.name}`;
}

export function knownTools(tools: readonly Tool[]): ReadonlyMap<string, KnownTool> {
  const known = ownTools(tools).map(({ tool, namespace }): KnownTool => {
    const within = namespace === undefined ? {} : { namespace: namespace.name };
    return { name: tool.name, ...within, custom: tool.type === 'custom' };
  });
  return new Map(known.map((one) => [modelName(one), one]));
}

/** Whether only the grammars of this server could hold the input of a tool to what it says. */
export function needsLark(tools: readonly Tool[]): boolean {
  return ownTools(tools).some(
    ({ tool }) => tool.type === 'custom' && tool.format?.type === 'grammar' && tool.format.syntax === 'lark',
  );
}

export function toChatTools(tools: readonly Tool[]): NonNullable<ChatBody['tools']> {
  return ownTools(tools).map(({ tool, namespace }) => {
    const within = namespace === undefined ? {} : { namespace: namespace.name };
    const about = [namespace?.description, tool.description].filter((text) => text != null && text !== '');
    const shown = {
      ...tool,
      name: modelName({ name: tool.name, ...within }),
      description: about.join('\n\n'),
    };
    return {
      type: 'function',
      function: shown.type === 'custom' ? customFunction(shown) : ownFunction(shown),
    };
  });
}

export function toChatChoice(
  choice: Choice | undefined,
  tools: readonly Tool[] = [],
): ChatBody['tool_choice'] {
  const known = knownTools(tools);
  const chosen = ({ name: one }: { readonly name: string }) => ({
    type: 'function' as const,
    function: { name: chosenName(one, known) },
  });
  if (choice === undefined || typeof choice === 'string') return choice;
  if (choice.type !== 'allowed_tools') return chosen(choice);
  const { type, mode, tools: allowed } = choice;
  return { type, allowed_tools: { mode, tools: allowed.filter(isNamed).map(chosen) } };
}

/** A tool in a namespace is also known by its own name where no other has that. */
function chosenName(given: string, known: ReadonlyMap<string, KnownTool>): string {
  if (known.has(given)) return given;
  const [only, another] = [...known.values()].filter(({ name: own }) => own === given);
  return only === undefined || another !== undefined ? given : modelName(only);
}

/** The tools as the response shows them: those that count. */
export function shownTools(tools: readonly Tool[]): object[] {
  const shown = (tool: OwnTool) => (tool.type === 'function' ? { ...tool, strict: isStrict(tool) } : tool);
  return tools.flatMap((tool): object[] => {
    if (tool.type === 'namespace') return [{ ...tool, tools: tool.tools.map(shown) }];
    return isOwn(tool) ? [shown(tool)] : [];
  });
}

export function toolWarnings(tools: readonly Tool[]): string[] {
  const hosted = tools.filter((tool) => tool.type !== 'namespace' && !isOwn(tool)).map(({ type }) => type);
  if (hosted.length === 0) return [];
  return [`tools that only a hosted service has were left out: ${hosted.join(', ')}`];
}

function isNamed(tool: { readonly type: string }): tool is z.infer<typeof named> {
  return tool.type === 'function' || tool.type === 'custom';
}

function isOwn(tool: Tool): tool is OwnTool {
  return tool.type === 'function' || tool.type === 'custom';
}

interface Placed {
  readonly tool: OwnTool;
  readonly namespace?: z.infer<typeof namespaceTool>;
}

function ownTools(tools: readonly Tool[]): Placed[] {
  return tools.flatMap((tool): Placed[] => {
    if (tool.type === 'namespace') return tool.tools.map((one) => ({ tool: one, namespace: tool }));
    return isOwn(tool) ? [{ tool }] : [];
  });
}

type WireFunction = NonNullable<ChatBody['tools']>[number]['function'];

function ownFunction(tool: z.infer<typeof functionTool>): WireFunction {
  const { parameters, description: about } = tool;
  return {
    name: tool.name,
    ...(about ? { description: about } : {}),
    ...(parameters == null ? {} : { parameters }),
    strict: isStrict(tool),
  };
}

/** The one argument is `input`; `custom-input.ts` takes it out of the call again. */
function customFunction({ name: own, description: about, format }: z.infer<typeof customTool>): WireFunction {
  const grammar = format?.type === 'grammar' ? format : undefined;
  const held =
    grammar === undefined
      ? {}
      : grammar.syntax === 'regex'
        ? { pattern: `^(?:${grammar.definition})$` }
        : { [larkKeyword]: grammar.definition };
  const shown = grammar && `The input must match this ${grammar.syntax} grammar:\n${grammar.definition}`;
  const texts = [about, shown].filter((text) => text != null && text !== '');
  return {
    name: own,
    ...(texts.length === 0 ? {} : { description: texts.join('\n\n') }),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string', ...held } },
      required: ['input'],
      additionalProperties: false,
    },
    strict: true,
  };
}
