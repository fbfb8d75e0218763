// What an answer shall be, and how it is read: from tools and structure that are asked for to a grammar in the model's own
// format, and to a reader that tells reasoning, text and calls apart.

import type { AnswerGrammar } from '../engine/request.ts';
import type { Expression } from '../grammar/expression.ts';
import { GrammarError } from '../grammar/grammar-error.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { detectFormat } from '../text/formats/detect.ts';
import type { AnswerFormat, AnswerReader, Tool } from '../text/formats/format.ts';
import type { JobCaller } from '../text/job-queue.ts';
import type { AnswerGrammars } from './answer-grammars.ts';
import { invalid } from './generation-error.ts';
import type { Prompt } from './prompt.ts';

/** What is asked of an answer beside its text. */
export interface AnswerWish {
  /** That may be called. */
  readonly tools: readonly Tool[];
  /** Whether one must be. */
  readonly mustCall: boolean;
  readonly parallel: boolean;
  /** What the text may be. */
  readonly structure: Expression | undefined;
  /** Tells reasoning and calls from text; else all is text. */
  readonly reads: boolean;
  /** What refusals of each call it. */
  readonly names: { readonly structure: string; readonly tools: string };
}

export interface AnswerPlan {
  readonly grammar: AnswerGrammar | undefined;
  /** One for each answer; undefined where all of it is text. */
  readonly newReader: (() => AnswerReader) | undefined;
  /** What is not enforced, though it was asked for where that is allowed. */
  readonly notes: readonly string[];
}

export const plainAnswer: AnswerPlan = { grammar: undefined, newReader: undefined, notes: [] };

export async function planAnswer(
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'template' | 'engine'>,
  prompt: Prompt,
  wish: AnswerWish,
  grammars: AnswerGrammars,
  caller: JobCaller,
): Promise<AnswerPlan> {
  const { format } = model.template?.format ?? detectFormat(undefined);
  const promptEnd = (prompt.text ?? '').slice(-200);
  const expression = expressionOf(format, wish, promptEnd);
  const compiled = expression && (await compiledAnswer(expression, model, wish, grammars, caller));
  return {
    grammar: compiled && { tables: compiled.tables, continues: prompt.continuation },
    newReader: readerOf(format, model, wish, promptEnd),
    notes: compiled?.notes ?? [],
  };
}

function expressionOf(format: AnswerFormat, wish: AnswerWish, promptEnd: string): Expression | undefined {
  const { tools, mustCall, parallel, structure, reads } = wish;
  const opened = format.opened(promptEnd);
  const body = structure && (reads ? format.wrapped(structure, opened) : structure);
  if (tools.length === 0) return body;
  const calls = (mode: 'auto' | 'required') => format.grammar({ tools, mode, parallel, opened });
  if (mustCall) return calls('required');
  if (body !== undefined) return { kind: 'choice', options: [calls('required'), body] };
  return lenient(
    calls('auto'),
    new Set(tools.filter(({ strict }) => strict).flatMap(({ parameters }) => objectsIn(parameters))),
  );
}

async function compiledAnswer(
  expression: Expression,
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'engine'>,
  { names, structure }: AnswerWish,
  grammars: AnswerGrammars,
  caller: JobCaller,
) {
  try {
    return await grammars.compile(model, expression, caller);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    throw invalid(structure === undefined ? names.tools : names.structure, error.message, 'invalid_grammar');
  }
}

function readerOf(
  format: AnswerFormat,
  { tokenizer }: Pick<ServedModel, 'tokenizer'>,
  { tools, reads }: AnswerWish,
  promptEnd: string,
): (() => AnswerReader) | undefined {
  if (!reads || (tools.length === 0 && !format.reasons)) return undefined;
  const controls = new Set(
    format.marks.filter((mark) => {
      const [id, ...rest] = tokenizer.encode(mark, { special: true });
      return id !== undefined && rest.length === 0 && tokenizer.isSpecial(id);
    }),
  );
  const options = { tools, promptEnd, isControl: (mark: string) => controls.has(mark), thinks: true };
  return () => format.reader(options);
}

/** Where a call is the model's own idea, arguments are held to their schema as far as that can be enforced. */
function lenient(expression: Expression, strict: ReadonlySet<unknown>): Expression {
  const inner = (part: Expression) => lenient(part, strict);
  switch (expression.kind) {
    case 'schema':
      return strict.has(expression.schema) ? expression : { ...expression, lenient: true };
    case 'sequence':
      return { ...expression, parts: expression.parts.map(inner) };
    case 'choice':
      return { ...expression, options: expression.options.map(inner) };
    case 'repeat':
      return { ...expression, part: inner(expression.part) };
    default:
      return expression;
  }
}

function objectsIn(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value, ...Object.values(value).flatMap(objectsIn)];
}
