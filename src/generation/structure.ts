// What the text of an answer shall be: one of four ways to say it, under whatever name the asker has for it.

import type { Expression } from '../grammar/expression.ts';
import type { AnswerWish } from './answer-plan.ts';
import { invalid } from './generation-error.ts';
import { noTools, type ToolOrder } from './tools.ts';

export interface Structure {
  readonly expression: Expression;
  /** What asks for it. */
  readonly name: string;
}

/** `reads`: reasoning and calls are told from text. */
export function wishFor(
  structure: Structure | undefined,
  reads: boolean,
  order: ToolOrder = noTools,
): AnswerWish {
  return {
    ...order,
    structure: structure?.expression,
    reads,
    names: { structure: structure?.name ?? '', tools: 'tools' },
  };
}

/** The one that is asked for; several contradict each other. */
export function onlyStructure(asked: readonly (Structure | undefined)[]): Structure | undefined {
  const [first, second] = asked.filter((one) => one !== undefined);
  if (second === undefined) return first;
  throw invalid(second.name, `contradicts ${first?.name}: an answer has one structure`);
}

/** Given as an object, or as the text of one. */
export function schemaStructure(name: string, given: unknown): Structure {
  return {
    name,
    expression: { kind: 'schema', schema: typeof given === 'string' ? parsed(name, given) : given },
  };
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(name, 'is neither a schema nor the JSON text of one');
  }
}

export function regexStructure(name: string, pattern: string): Structure {
  return { name, expression: { kind: 'regex', pattern } };
}

export function choiceStructure(name: string, options: readonly string[]): Structure {
  return { name, expression: { kind: 'choice', options: options.map((text) => ({ kind: 'text', text })) } };
}

/** In GBNF. */
export function grammarStructure(name: string, text: string): Structure {
  return { name, expression: { kind: 'grammar', text } };
}
