// Arguments of calls that are not written as JSON: which there are by the tool's schema, and what a value's text
// means there.

import { choice, type Expression, optional, sequence } from '../../grammar/expression.ts';
import { GrammarError, tooLarge } from '../../grammar/grammar-error.ts';
import { schema as valid } from './call-grammar.ts';
import type { Tool } from './format.ts';
import type { Reading, Tape } from './tape.ts';

type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  /** With the definitions it may refer to. */
  readonly schema: Schema;
  readonly required: boolean;
  /** Whether strings alone are valid, so that text need not be quoted. */
  readonly isString: boolean;
}

/** In the order of the schema. */
export function parametersOf({ parameters }: Tool): Parameter[] {
  const root = resolved(schemaOf(parameters));
  const required = new Set<unknown>(Array.isArray(root.required) ? root.required : []);
  return Object.entries(schemaOf(root.properties)).map(([name, given]) => {
    const schema = within(root, given);
    return { name, schema, required: required.has(name), isString: isString(schema, 0) };
  });
}

/** What holds for all arguments together, and not for each by itself. */
const joint = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'const', 'enum', 'minProperties', 'maxProperties'];
const jointNames = [
  'patternProperties',
  'propertyNames',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
];
const MAX_PARAMETERS = 200;

/** Those that can be written one by one; throws GrammarError where that would not be all that a strict tool says. */
function separateParameters(tool: Tool): Parameter[] {
  const all = parametersOf(tool);
  if (all.length > MAX_PARAMETERS) throw tooLarge(`more than ${MAX_PARAMETERS} parameters`);
  if (!tool.strict) return all;
  const root = resolved(schemaOf(tool.parameters));
  const required = Array.isArray(root.required) ? (root.required as unknown[]) : [];
  const keyword = [...joint, ...jointNames, '$ref'].find((one) => Object.hasOwn(root, one));
  const unnamed = required.find((name) => !all.some((parameter) => parameter.name === name));
  if (keyword === undefined && unnamed === undefined) return all;
  const what = keyword ?? 'required';
  const message = `'${what}' of the parameters of '${tool.name}' cannot be enforced in this model's format of calls`;
  throw new GrammarError('unsupported', message, what);
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

/** What a reference to one of the schema's own definitions means; it keeps the definitions. */
function resolved(schema: Schema): Schema {
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== 'string') return schema;
  const [, holder = '', name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  const definitions = schemaOf(schema[holder]);
  if (!Object.hasOwn(definitions, name)) return schema;
  return { ...rest, ...schemaOf(definitions[name]) };
}

/** Python's words, which models slip into. */
const pythonWords: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);

export function pythonWord(spelled: string): string | undefined {
  return pythonWords.get(spelled);
}

/** JSON text of a value that was written without quotes: a string where one is wanted or nothing else fits. */
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

/** JSON text of an object; of equal names the last counts. */
export function objectText(values: ReadonlyMap<string, string>): string {
  return `${objectStart(values)}}`;
}

/** The same before it is known that no more follows. */
export function objectStart(values: ReadonlyMap<string, string>): string {
  return `{${[...values].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}`;
}

/** Each parameter in turn, those that are not required optionally. */
export function parameterRow(tool: Tool, spell: (parameter: Parameter) => Expression): Expression {
  return sequence(
    ...separateParameters(tool).map((parameter) =>
      parameter.required ? spell(parameter) : optional(spell(parameter)),
    ),
  );
}

/** The same with a separator between those that are there. */
export function parameterList(
  tool: Tool,
  separator: Expression,
  spell: (parameter: Parameter) => Expression,
): Expression {
  const parameters = separateParameters(tool);
  const rest = (from: number): Expression[] =>
    parameters.slice(from).map((parameter) => {
      const part = sequence(separator, spell(parameter));
      return parameter.required ? part : optional(part);
    });
  // Whichever comes first, all before it are left out: so it can be none behind a required one.
  const required = parameters.findIndex((parameter) => parameter.required);
  const candidates = required < 0 ? parameters : parameters.slice(0, required + 1);
  const options = candidates.map((parameter, index) => sequence(spell(parameter), ...rest(index + 1)));
  return choice(...options, ...(required < 0 ? [sequence()] : []));
}

export function parametersByName(tool: Tool): ReadonlyMap<string, Parameter> {
  return new Map(parametersOf(tool).map((parameter) => [parameter.name, parameter]));
}

/** Text without quotes up to a mark, or JSON. */
export function bareValue({ schema, isString: bare }: Parameter, tool: Tool, close: string): Expression {
  return valid(schema, tool, bare ? { quote: '', without: close } : { without: close });
}

/** The name of a parameter and the mark behind it. Names may hold anything, even that mark. */
export function* parameterName(
  tape: Tape,
  parameters: ReadonlyMap<string, Parameter>,
  close: string,
): Reading<string | undefined> {
  const known = [...parameters.keys()].sort((a, b) => b.length - a.length);
  for (const name of known) if (yield* tape.took(...(name === '' ? [] : [name]), close)) return name;
  return yield* tape.until(close);
}
