// Arguments of calls that are not written as JSON: which there are by the tool's schema, and what a value's text
// means there.

import { choice, type Expression, optional, sequence } from '../../grammar/expression.ts';
import { schema as valid } from './call-grammar.ts';
import type { Tool } from './format.ts';

export type Schema = Readonly<Record<string, unknown>>;

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
  const root = schemaOf(parameters);
  const required = Array.isArray(root.required) ? root.required : [];
  return Object.entries(schemaOf(root.properties)).map(([name, given]) => {
    const schema = within(root, given);
    return { name, schema, required: required.includes(name), isString: isString(schema, 0) };
  });
}

export function schemaOf(value: unknown): Schema {
  return typeof value === 'object' && value !== null ? (value as Schema) : {};
}

/** A part of a schema with the definitions it may refer to. */
export function within(root: Schema, part: unknown): Schema {
  const held = ['$defs', 'definitions'].filter((key) => key in root).map((key) => [key, root[key]]);
  return { ...Object.fromEntries(held), ...schemaOf(part) };
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
export function resolved(schema: Schema): Schema {
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== 'string') return schema;
  const [, holder = '', name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  return { ...rest, ...schemaOf(schemaOf(schema[holder])[name]) };
}

/** The strings that are valid, where only some are. */
export function stringsOf(schema: Schema): readonly string[] | undefined {
  const values = 'const' in schema ? [schema.const] : schema.enum;
  return Array.isArray(values) && values.every((value) => typeof value === 'string') ? values : undefined;
}

/** Python's words, which models slip into. */
export const pythonWords: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };

/** JSON text of a value that was written without quotes: a string where one is wanted or nothing else fits. */
export function asJson(raw: string, parameter: Parameter | undefined): string {
  if (parameter?.isString) return JSON.stringify(raw);
  const trimmed = raw.trim();
  try {
    JSON.parse(trimmed);
    return trimmed;
  } catch {
    return pythonWords[trimmed] ?? JSON.stringify(raw);
  }
}

/** JSON text of an object; of equal names the last counts. */
export function objectText(values: ReadonlyMap<string, string>): string {
  return `{${[...values].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
}

/** Each parameter in turn, those that are not required optionally. */
export function parameterRow(tool: Tool, spell: (parameter: Parameter) => Expression): Expression {
  return sequence(
    ...parametersOf(tool).map((parameter) =>
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
  const parameters = parametersOf(tool);
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
export function bareValue(parameter: Parameter, close: string): Expression {
  if (!parameter.isString) return valid(parameter.schema);
  const strings = stringsOf(parameter.schema);
  if (strings === undefined) return { kind: 'free', without: [close] };
  return choice(...strings.map((value): Expression => ({ kind: 'text', text: value })));
}
