// How an answer is constrained and read: tools and a response format become a grammar in the model's own format, and
// a reader separates reasoning, text and calls.

import type { AnswerGrammar } from '../engine/request.ts';
import type { Expression } from '../grammar/expression.ts';
import { GrammarError } from '../grammar/grammar-error.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { JobCaller } from '../runtime/job-queue.ts';
import type { ThinkingLimit } from '../sampling/thinking-budget.ts';
import type { AnswerReader, Tool } from '../text/formats/answer-part.ts';
import { detectFormat } from '../text/formats/detect.ts';
import type { AnswerFormat } from '../text/formats/format.ts';
import type { AnswerGrammars } from './answer-grammars.ts';
import type { Prompt } from './context-room.ts';
import { GenerationError, invalid } from './generation-error.ts';
import type { CheckedText } from './grammar-worker.ts';
import { thinkingLimit } from './thinking-limit.ts';

export interface AnswerRequirements {
  readonly tools: readonly Tool[];
  readonly mustCall: boolean;
  readonly parallel: boolean;
  readonly responseFormat: Expression | undefined;
  /** Separates reasoning and calls from text; otherwise all is text. */
  readonly reads: boolean;
  /** How many tokens it may reason. Default: no limit. */
  readonly thinkingTokens?: number | undefined;
  /** The same, held only by a model that reasons and has a token that ends it. */
  readonly thinkingHint?: number | undefined;
  readonly names: { readonly responseFormat: string; readonly tools: string };
}

export interface AnswerPlan {
  readonly grammar: AnswerGrammar | undefined;
  readonly thinking?: ThinkingLimit | undefined;
  /** Creates a reader per answer; undefined where all of it is text. */
  readonly newReader: (() => AnswerReader) | undefined;
  /** What of schemas is unknown or not enforced. */
  readonly notes: readonly string[];
  /** Set where the grammar allows more than is valid: whether a finished answer is valid; null where that cannot be said. */
  readonly check?: ((answer: WrittenAnswer) => Promise<boolean | null>) | undefined;
}

interface WrittenAnswer {
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
}

export const plainAnswer: AnswerPlan = { grammar: undefined, newReader: undefined, notes: [] };

export async function planAnswer(
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'template' | 'engine'>,
  prompt: Prompt,
  requirements: AnswerRequirements,
  grammars: AnswerGrammars,
  caller: JobCaller,
): Promise<AnswerPlan> {
  const { format } = model.template?.format ?? detectFormat(undefined);
  const promptEnd = (prompt.text ?? prompt.end ?? '').slice(-200);
  const { thinkingTokens, thinkingHint } = requirements;
  const limit = (tokens: number) => thinkingLimit(tokens, format, model, promptEnd);
  const thinking =
    thinkingTokens === undefined
      ? thinkingHint === undefined
        ? undefined
        : unlessRefused(() => limit(thinkingHint))
      : limit(thinkingTokens);
  const compiled = await compiledAnswer(format, promptEnd, model, requirements, grammars, caller);
  return {
    thinking,
    grammar: compiled && { tables: compiled.tables, continues: prompt.continuation },
    newReader: readerOf(format, model, requirements, promptEnd),
    notes: compiled?.notes ?? [],
    check: compiled?.isLoose
      ? (answer) => grammars.areValid(checkedTexts(answer, requirements), caller)
      : undefined,
  };
}

function unlessRefused<Result>(make: () => Result): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof GenerationError) return undefined;
    throw error;
  }
}

function checkedTexts(
  { text, calls }: WrittenAnswer,
  { tools, responseFormat }: AnswerRequirements,
): CheckedText[] {
  if (calls.length === 0)
    return responseFormat?.kind === 'schema' ? [{ text, schema: responseFormat.schema }] : [];
  return calls.flatMap((call) => {
    const tool = tools.find(({ name }) => name === call.name);
    return tool === undefined ? [] : [{ text: call.arguments, schema: tool.parameters }];
  });
}

function expressionOf(
  format: AnswerFormat,
  requirements: AnswerRequirements,
  promptEnd: string,
): Expression | undefined {
  const { tools, mustCall, parallel, responseFormat, reads } = requirements;
  const opened = format.opened(promptEnd);
  const body = responseFormat && (reads ? format.wrapped(responseFormat, opened) : responseFormat);
  if (tools.length === 0) return body;
  // The model may choose not to call: arguments follow their schema as far as that can be enforced.
  if (!mustCall && body === undefined) return format.grammar({ tools, mode: 'auto', parallel, opened });
  const calls = format.grammar({ tools, mode: 'required', parallel, opened });
  return mustCall || body === undefined ? calls : { kind: 'choice', options: [calls, body] };
}

async function compiledAnswer(
  format: AnswerFormat,
  promptEnd: string,
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'engine'>,
  requirements: AnswerRequirements,
  grammars: AnswerGrammars,
  caller: JobCaller,
) {
  try {
    const expression = expressionOf(format, requirements, promptEnd);
    return expression && (await grammars.compile(model, expression, caller));
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const { names, responseFormat } = requirements;
    throw invalid(
      responseFormat === undefined ? names.tools : names.responseFormat,
      error.message,
      'invalid_grammar',
    );
  }
}

function readerOf(
  format: AnswerFormat,
  { tokenizer }: Pick<ServedModel, 'tokenizer'>,
  { tools, reads }: AnswerRequirements,
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
