// Arguments of calls that are not JSON: the parameters of a tool's schema, and what a value's text means.

import { choice, type Expression, optional, sequence } from '../../grammar/expression.ts';
import { GrammarError, tooLarge } from '../../grammar/grammar-error.ts';
import type { Tool } from './answer-part.ts';
import { schema as valid } from './call-grammar.ts';
import type { Reading, Tape } from './tape.ts';

type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
  /** Whether only strings are valid, so that quotes are not needed. */
  readonly isString: boolean;
}

export function parametersOf({ parameters }: Tool): Parameter[] {
  const root = resolved(schemaOf(parameters));
  const required = new Set<unknown>(Array.isArray(root.required) ? root.required : []);
  return Object.entries(schemaOf(root.properties)).map(([name, given]) => {
    const schema = within(root, given);
    return { name, schema, required: required.has(name), isString: isString(schema, 0) };
  });
}

/** Keywords about all arguments together. */
const joint = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'const', 'enum', 'minProperties', 'maxProperties'];
const jointNames = [
  'patternProperties',
  'propertyNames',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
];
const MAX_PARAMETERS = 200;

/**
 * What of a tool's schema writing parameters one by one cannot enforce. Throws GrammarError where the tool is strict or has
 * too many.
 */
function notSeparate(tool: Tool, all: readonly Parameter[]): string | undefined {
  if (all.length > MAX_PARAMETERS) throw tooLarge(`more than ${MAX_PARAMETERS} parameters`);
  const root = resolved(schemaOf(tool.parameters));
  const required = Array.isArray(root.required) ? (root.required as unknown[]) : [];
  const keyword = [...joint, ...jointNames, '$ref'].find((one) => Object.hasOwn(root, one));
  const unnamed = required.find((name) => !all.some((parameter) => parameter.name === name));
  if (keyword === undefined && unnamed === undefined) return undefined;
  const what = keyword ?? 'required';
  const message = `'${what}' of the parameters of '${tool.name}' cannot be enforced in this model's format of calls`;
  if (tool.strict) throw new GrammarError('unsupported', message, what);
  return message;
}

function noted(tool: Tool, spell: (parameters: readonly Parameter[]) => Expression): Expression {
  const all = parametersOf(tool);
  const note = notSeparate(tool, all);
  return note === undefined ? spell(all) : { kind: 'noted', part: spell(all), note };
}

function schemaOf(value: unknown): Schema {
  return typeof value === 'object' && value !== null ? (value as Schema) : {};
}

/** A part of a schema with the definitions it may refer to. */
function within(root: Schema, part: unknown): Schema {
  const held = ['$defs', 'definitions']
    .filter((key) => Object.hasOwn(root, key))
    .map((key) => [key, root[key]]);
  // No value is valid against false.
  return { ...Object.fromEntries(held), ...(part === false ? { enum: [] } : schemaOf(part)) };
}

function isString(schema: Schema, depth: number): boolean {
  const { type, $ref: reference, enum: values } = schema;
  if (type !== undefined) return type === 'string';
  if (Array.isArray(values)) return values.every((value) => typeof value === 'string');
  if ('const' in schema) return typeof schema.const === 'string';
  // References may go round in circles.
  return typeof reference === 'string' && depth < 8 && isString(resolved(schema), depth + 1);
}

/** Resolves a reference to the schema's own definitions, and keeps these. */
function resolved(schema: Schema): Schema {
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== 'string') return schema;
  const [, holder = '', name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  const definitions = schemaOf(schema[holder]);
  if (!Object.hasOwn(definitions, name)) return schema;
  return { ...rest, ...schemaOf(definitions[name]) };
}

/** Models mix in Python's words. */
const pythonWords: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);

export function pythonWord(spelled: string): string | undefined {
  return pythonWords.get(spelled);
}

/** JSON text of an unquoted value: a string where one is expected or nothing else fits. */
export function asJson(raw: string, parameter: Parameter | undefined): string {
  if (parameter?.isString) return JSON.stringify(raw);
  const trimmed = raw.trim();
  try {
    JSON.parse(trimmed);
    return trimmed;
  } catch {
    return pythonWord(trimmed) ?? JSON.stringify(raw);
  }
}

/** Of equal names the last counts. */
export function objectText(values: ReadonlyMap<string, string>): string {
  return `${objectStart(values)}}`;
}

/** While more may follow. */
export function objectStart(values: ReadonlyMap<string, string>): string {
  return `{${[...values].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}`;
}

/** Parameters in order; those not required are optional. */
export function parameterRow(tool: Tool, spell: (parameter: Parameter) => Expression): Expression {
  return noted(tool, (parameters) =>
    sequence(
      ...parameters.map((parameter) => (parameter.required ? spell(parameter) : optional(spell(parameter)))),
    ),
  );
}

/** With a separator between those present. */
export function parameterList(
  tool: Tool,
  separator: Expression,
  spell: (parameter: Parameter) => Expression,
): Expression {
  return noted(tool, (parameters) => separated(parameters, separator, spell));
}

function separated(
  parameters: readonly Parameter[],
  separator: Expression,
  spell: (parameter: Parameter) => Expression,
): Expression {
  const rest = (from: number): Expression[] =>
    parameters.slice(from).map((parameter) => {
      const part = sequence(separator, spell(parameter));
      return parameter.required ? part : optional(part);
    });
  // All before the first present one are left out, so it cannot come after a required one.
  const required = parameters.findIndex((parameter) => parameter.required);
  const candidates = required < 0 ? parameters : parameters.slice(0, required + 1);
  const options = candidates.map((parameter, index) => sequence(spell(parameter), ...rest(index + 1)));
  return choice(...options, ...(required < 0 ? [sequence()] : []));
}

export function parametersByName(tool: Tool): ReadonlyMap<string, Parameter> {
  return new Map(parametersOf(tool).map((parameter) => [parameter.name, parameter]));
}

/** Unquoted text up to a mark, or JSON. */
export function bareValue({ schema, isString: bare }: Parameter, tool: Tool, close: string): Expression {
  return valid(schema, tool, bare ? { quote: '', without: close } : { without: close });
}

/** Takes a name and the mark after it. Names may contain anything, even that mark. */
export function* parameterName(
  tape: Tape,
  parameters: ReadonlyMap<string, Parameter>,
  close: string,
): Reading<string | undefined> {
  const known = [...parameters.keys()].sort((a, b) => b.length - a.length);
  for (const name of known) if (yield* tape.took(...(name === '' ? [] : [name]), close)) return name;
  return yield* tape.until(close);
}
