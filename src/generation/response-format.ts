// What the text of an answer must be: a JSON schema, a regular expression, choices or a grammar.

import { isDeepStrictEqual } from 'node:util';
import type { Expression } from '../grammar/expression.ts';
import type { AnswerRequirements } from './answer-plan.ts';
import { invalid } from './generation-error.ts';
import { noTools, type ToolSelection } from './tools.ts';

export interface ResponseFormat {
  readonly expression: Expression;
  readonly name: string;
}

/** `reads`: separate reasoning and calls from text. */
export function requirementsFor(
  responseFormat: ResponseFormat | undefined,
  reads: boolean,
  selection: ToolSelection = noTools,
): AnswerRequirements {
  return {
    ...selection,
    responseFormat: responseFormat?.expression,
    reads,
    names: { responseFormat: responseFormat?.name ?? '', tools: 'tools' },
  };
}

/** Some clients send one format under the names of several servers. */
export function onlyResponseFormat(
  asked: readonly (ResponseFormat | undefined)[],
): ResponseFormat | undefined {
  const [first, ...others] = asked.filter((one) => one !== undefined);
  const other = others.find(({ expression }) => !isDeepStrictEqual(expression, first?.expression));
  if (other === undefined) return first;
  throw invalid(other.name, `contradicts ${first?.name}: an answer has one structure`);
}

/** `strict`: refuses a schema that cannot be enforced; else the grammar is the closest that allows all valid answers. */
export function schemaFormat(name: string, given: unknown, strict: boolean): ResponseFormat {
  const schema = typeof given === 'string' ? parsed(name, given) : given;
  return { name, expression: { kind: 'schema', schema, ...(strict ? {} : { lenient: 'closest' }) } };
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(name, 'is neither a schema nor the JSON text of one');
  }
}

export function regexFormat(name: string, pattern: string): ResponseFormat {
  return { name, expression: { kind: 'regex', pattern } };
}

export function choiceFormat(name: string, options: readonly string[]): ResponseFormat {
  return { name, expression: { kind: 'choice', options: options.map((text) => ({ kind: 'text', text })) } };
}

export function grammarFormat(name: string, text: string): ResponseFormat {
  return { name, expression: { kind: 'grammar', text } };
}
