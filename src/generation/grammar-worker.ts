// The thread of `answer-grammars.ts`: reads vocabularies and compiles grammars. Both may take long.

import { parentPort } from 'node:worker_threads';
import { rulesOf } from '../grammar/assemble.ts';
import { compileRules } from '../grammar/compile.ts';
import type { Expression } from '../grammar/expression.ts';
import { GrammarError, type GrammarProblem } from '../grammar/grammar-error.ts';
import { isValidText } from '../grammar/json/validate.ts';
import { type GrammarTables, tableBytes } from '../grammar/tables.ts';
import { type VocabularyTables, vocabularyTables } from '../grammar/vocabulary.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { FromJobThread } from '../runtime/job-thread.ts';
import { openText } from '../text/open-text.ts';
import { openModelFiles } from '../weights/open-model.ts';

export type Controls = ReadonlyMap<string, number>;

export type GrammarJob =
  | { readonly kind: 'vocabulary'; readonly path: string }
  | { readonly kind: 'compile'; readonly expression: Expression; readonly controls: Controls }
  | { readonly kind: 'check'; readonly texts: readonly CheckedText[] };

/** JSON text, and the schema that it must be valid against. */
export interface CheckedText {
  readonly text: string;
  readonly schema: unknown;
}

export type GrammarResult =
  | { readonly kind: 'vocabulary'; readonly tables: VocabularyTables; readonly controls: Controls }
  | {
      readonly kind: 'compiled';
      readonly tables: GrammarTables;
      readonly notes: readonly string[];
      readonly isLoose: boolean;
    }
  /** Null where it cannot be said. */
  | { readonly kind: 'checked'; readonly isValid: boolean | null }
  | {
      readonly kind: 'refused';
      readonly problem: GrammarProblem;
      readonly message: string;
      readonly keyword: string | undefined;
    };

/** Larger tables would delay messages to the engine. */
const MAX_TABLE_BYTES = 8 * 2 ** 20;

function resultOf(job: GrammarJob): GrammarResult {
  switch (job.kind) {
    case 'vocabulary':
      return readVocabulary(job.path);
    case 'compile':
      return compile(job.expression, job.controls);
    case 'check':
      return { kind: 'checked', isValid: allValid(job.texts) };
  }
}

function allValid(texts: readonly CheckedText[]): boolean | null {
  const verdicts = texts.map(({ text, schema }) => isValidText(text, schema));
  return verdicts.includes(false) ? false : verdicts.includes(null) ? null : true;
}

function readVocabulary(path: string): GrammarResult {
  const files = openModelFiles(path);
  try {
    const { tokenizer } = openText(files);
    const tables = vocabularyTables(tokenizer);
    const controls = new Map<string, number>();
    for (const id of tables.controls) {
      const spelling = tokenizer.tokenText(id) ?? '';
      if (spelling !== '') controls.set(spelling, id);
    }
    return { kind: 'vocabulary', tables, controls };
  } finally {
    files.weights.close();
  }
}

function compile(expression: Expression, controls: Controls): GrammarResult {
  try {
    const { rules, notes, isLoose } = rulesOf(expression, (spelling) => controls.get(spelling));
    const tables = compileRules(rules);
    if (tableBytes(tables) > MAX_TABLE_BYTES) throw new GrammarError('too-large', 'the grammar is too large');
    return { kind: 'compiled', tables, notes, isLoose };
  } catch (error) {
    if (error instanceof GrammarError) return refusal(error);
    // Deeply nested input overflows the stack.
    if (error instanceof RangeError) return refusal(new GrammarError('too-large', 'the grammar is too deep'));
    throw error;
  }
}

function refusal({ problem, message, keyword }: GrammarError): GrammarResult {
  return { kind: 'refused', problem, message, keyword };
}

function answer(job: GrammarJob): FromJobThread<GrammarResult> {
  try {
    return { kind: 'result', result: resultOf(job) };
  } catch (error) {
    return { kind: 'problem', message: messageOf(error) };
  }
}

parentPort?.on('message', (job: GrammarJob) => parentPort?.postMessage(answer(job)));
parentPort?.postMessage({ kind: 'ready' } satisfies FromJobThread<GrammarResult>);
