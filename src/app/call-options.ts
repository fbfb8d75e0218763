// What a call of a loaded model may ask for: how its answer is sampled, its response format, tools and a prediction. A wrong value
// is refused with a line that names it.

import type { Priority } from '../engine/request.ts';
import type { ParameterNames } from '../generation/generation-error.ts';
import {
  choiceFormat,
  grammarFormat,
  onlyResponseFormat,
  type ResponseFormat,
  regexFormat,
  schemaFormat,
} from '../generation/response-format.ts';
import { type SampledModel, samplingSettings } from '../generation/sampling-settings.ts';
import {
  noTools,
  selectTools,
  type ToolChoice,
  type ToolSelection,
  toolNamePattern,
  toolNameProblem,
  type WireTool,
} from '../generation/tools.ts';
import type { SamplingParameters, SamplingRequest } from '../sampling/parameters.ts';
import { invalidValue } from './chairlift-error.ts';
import type { OneOf } from './one-of.ts';

const priorities = { high: 0, normal: 1, low: 2 } as const satisfies Record<string, Priority>;

export type TokenOptions = SamplingRequest & {
  /** Ends the answer at once; the call then fails with the signal's reason, an AbortError by default. */
  readonly signal?: AbortSignal | undefined;
  /** Who goes first where there is not room for all. Default normal. */
  readonly priority?: keyof typeof priorities | undefined;
  /** One of the adapters that the model was loaded with. Default none. */
  readonly adapter?: string | undefined;
};

export type TextOptions = TokenOptions &
  StructureOptions & {
    /** Texts that end the answer and are not shown. */
    readonly stop?: readonly string[] | undefined;
    /** What the answer will probably be, such as a text that is to be corrected: it comes sooner, and is the same. */
    readonly prediction?: string | undefined;
    /** Control tokens appear in the text as they are spelled. Default false: they are left out. */
    readonly special?: boolean | undefined;
  };

export type ChatOptions = TextOptions &
  ToolOptions & {
    /** Further variables for the model's chat template, such as `enable_thinking`. */
    readonly variables?: Readonly<Record<string, unknown>> | undefined;
  };

export interface EmbedOptions extends Pick<TokenOptions, 'signal' | 'priority' | 'adapter'> {
  /** So many leading values of each vector, again of length 1. Default all. */
  readonly dimensions?: number | undefined;
}

export function priorityOf(name: TokenOptions['priority'] = 'normal'): Priority {
  if (Object.hasOwn(priorities, name)) return priorities[name];
  throw invalidValue('priority', `give one of ${Object.keys(priorities).join(', ')}`);
}

export function stopsOf(stop: TextOptions['stop'] = []): readonly string[] {
  if (Array.isArray(stop) && stop.every((text) => typeof text === 'string' && text !== '')) return stop;
  throw invalidValue('stop', 'give a list of texts, none of them empty');
}

export function predictionOf(text: TextOptions['prediction']): string | undefined {
  if (text === undefined || typeof text === 'string') return text;
  throw invalidValue('prediction', 'give a text');
}

/** Takes the options that remain when a call has taken its own. */
export function samplingOf(
  request: SamplingRequest,
  model: SampledModel,
  names: ParameterNames,
): SamplingParameters {
  const parameters = samplingSettings(request, model, names);
  const unknown = Object.keys(request).find((name) => !Object.hasOwn(parameters, name));
  if (unknown !== undefined) throw invalidValue(unknown, 'there is no such option for this call');
  return parameters;
}

interface Structures {
  /** A JSON schema: the text is JSON that it describes. */
  readonly schema: Readonly<Record<string, unknown>> | boolean;
  /** A regular expression: the text matches it as a whole. */
  readonly regex: string;
  /** The text is one of these. */
  readonly choices: readonly string[];
  /** A grammar in GBNF: the text is what it allows. */
  readonly grammar: string;
}

/** The response format; one of them at most. */
export type StructureOptions = OneOf<Structures>;

/** As they are before it is known that there is one at most. */
type GivenStructures = { readonly [Name in keyof Structures]?: Structures[Name] | undefined };

export interface ToolDescription {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON schema of the arguments, which are an object. Default: there are none. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  /** Refuses a schema that cannot be enforced in all it says. Default false. */
  readonly strict?: boolean | undefined;
}

export interface ToolOptions {
  /** What the model may call; also in the shape of OpenAI. */
  readonly tools?:
    | readonly (ToolDescription | { readonly type: 'function'; readonly function: ToolDescription })[]
    | undefined;
  /** Whether it calls something: as it likes (the default), not at all, for certain, or the one of this name. */
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string } | undefined;
  /** Whether there may be several calls in one answer. Default true. */
  readonly parallelToolCalls?: boolean | undefined;
}

export function structureOf({
  schema,
  regex,
  choices,
  grammar,
}: GivenStructures): ResponseFormat | undefined {
  return onlyResponseFormat([
    schema === undefined ? undefined : schemaFormat('schema', checkSchema(schema), true),
    regex === undefined ? undefined : regexFormat('regex', checkText('regex', regex)),
    choices === undefined ? undefined : choiceFormat('choices', checkChoices(choices)),
    grammar === undefined ? undefined : grammarFormat('grammar', checkText('grammar', grammar)),
  ]);
}

export function orderOf({ tools = [], toolChoice = 'auto', parallelToolCalls }: ToolOptions): ToolSelection {
  if (!Array.isArray(tools)) throw invalidValue('tools', 'give a list of tools');
  const choice = choiceOf(toolChoice);
  const parallel = checkSwitch('parallelToolCalls', parallelToolCalls) ?? noTools.parallel;
  return selectTools({
    tools: tools.map((tool, at) => toolOf(tool, `tools[${at}]`)),
    choice,
    parallel: parallel && typeof toolChoice === 'string',
    names: { tools: 'tools', choice: 'toolChoice' },
  });
}

function checkSchema(schema: unknown): unknown {
  if (isObject(schema) || typeof schema === 'boolean') return schema;
  throw invalidValue('schema', 'give a JSON schema as an object');
}

function checkText(name: string, text: unknown): string {
  if (typeof text === 'string') return text;
  throw invalidValue(name, 'give a text');
}

function checkChoices(choices: unknown): readonly string[] {
  const isList = Array.isArray(choices) && choices.length > 0;
  if (isList && choices.every((text) => typeof text === 'string')) return choices;
  throw invalidValue('choices', 'give a list of texts, at least one');
}

function choiceOf(given: unknown): ToolChoice {
  if (given === 'auto' || given === 'none' || given === 'required') return given;
  if (isObject(given) && typeof given.name === 'string') return { allowed: [given.name], mustCall: true };
  throw invalidValue('toolChoice', "give 'auto', 'none', 'required' or { name }");
}

const toolFields = ['name', 'description', 'parameters', 'strict'];

function toolOf(given: unknown, where: string): WireTool {
  const isWire = isObject(given) && given.type === 'function' && 'function' in given;
  const tool = isWire ? given.function : given;
  if (!isObject(tool)) throw invalidValue(where, 'give an object with a name');
  const { name, description, parameters, strict } = tool;
  if (typeof name !== 'string' || !toolNamePattern.test(name)) {
    throw invalidValue(`${where}.name`, toolNameProblem);
  }
  const unknown = Object.keys(tool).find((field) => !toolFields.includes(field));
  if (unknown !== undefined) throw invalidValue(`${where}.${unknown}`, 'a tool has no such field');
  if (parameters !== undefined && !isObject(parameters)) {
    throw invalidValue(`${where}.parameters`, 'give a JSON schema as an object');
  }
  const held = checkSwitch(`${where}.strict`, strict);
  return {
    type: 'function',
    function: {
      name,
      ...(description === undefined ? {} : { description: checkText(`${where}.description`, description) }),
      ...(parameters === undefined ? {} : { parameters }),
      ...(held === undefined ? {} : { strict: held }),
    },
  };
}

function checkSwitch(name: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw invalidValue(name, 'give true or false');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
