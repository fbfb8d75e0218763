// How a model writes reasoning and tool calls: a grammar for what it may write and a reader for what it wrote. Knows
// neither tokens nor requests.

import type { Expression } from '../../grammar/expression.ts';
import type { AnswerReader, Tool } from './answer-part.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, Tape } from './tape.ts';

export type FormatName =
  | 'hermes'
  | 'llama-json'
  | 'pythonic'
  | 'tool-code'
  | 'lfm2'
  | 'mistral'
  | 'mistral-list'
  | 'deepseek-v3'
  | 'deepseek-v3.1'
  | 'kimi-k2'
  | 'harmony'
  | 'granite'
  | 'phi'
  | 'glm'
  | 'qwen-xml'
  | 'seed-xml'
  | 'gemma'
  | 'functiongemma';

/** auto: text in which a trigger begins a call; required: one or more calls and no text but reasoning. */
export type CallMode = 'auto' | 'required';

interface GrammarOptions {
  readonly tools: readonly Tool[];
  readonly mode: CallMode;
  readonly parallel: boolean;
  /** Whether the prompt ends within reasoning. */
  readonly opened: boolean;
}

export interface ReaderOptions {
  /** Only these may be called. */
  readonly tools: readonly Tool[];
  /** May have opened the reasoning. */
  readonly promptEnd: string;
  /** Whether the mark is a control token: then no plain text is that mark. */
  readonly isControl: (mark: string) => boolean;
  /** Whether reasoning is separated; otherwise it stays content, marks included. */
  readonly thinks: boolean;
}

export interface ThinkingMarks {
  readonly opens: readonly string[];
  readonly closes: readonly string[];
  /** Ends it so that the answer follows. */
  readonly ending: string;
}

export interface AnswerFormat {
  readonly name: FormatName;
  readonly reasons: boolean;
  /** Including marks that are no control tokens. */
  readonly marks: readonly string[];
  /** What begins and ends reasoning, as it is spelled; absent where there is none. */
  readonly thinking?: ThinkingMarks | undefined;
  /** Whether a prompt that ends so leaves the model within reasoning. */
  opened(promptEnd: string): boolean;
  /** A whole answer with tools. */
  grammar(options: GrammarOptions): Expression;
  /** A whole answer that is `body`, after optional reasoning. */
  wrapped(body: Expression, opened: boolean): Expression;
  reader(options: ReaderOptions): AnswerReader;
}

export interface ToolFormat {
  readonly name: FormatName;
  /** Possible control tokens, and whatever begins a call within an answer. */
  readonly marks: readonly string[];
  /** After reasoning, if there is any. */
  grammar(tools: readonly Tool[], mode: CallMode, parallel: boolean): Expression;
  /**
   * Takes the calls at this position. On false, what it took since `tape.begin` is text. `fresh`: the answer has had
   * nothing but reasoning so far.
   */
  read(tape: Tape, writer: AnswerWriter, fresh: boolean): Reading<boolean>;
}
