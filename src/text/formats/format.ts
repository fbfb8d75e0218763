// How a model writes its answers: where reasoning stands, and how tools are called. One contract for what may be
// written (a grammar) and what was written (a reader). Pure: knows neither tokens nor requests.

import type { Expression } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, Tape } from './tape.ts';

export interface Tool {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON schema of the arguments, which are an object. */
  readonly parameters: unknown;
  readonly strict: boolean;
}

export type AnswerPart =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** A call begins; calls are counted from 0. */
  | { readonly kind: 'call'; readonly call: number; readonly name: string }
  /** A further piece of its arguments, which are JSON text. */
  | { readonly kind: 'arguments'; readonly call: number; readonly text: string };

export interface AnswerReader {
  /** A piece of text, or one control token by its spelling. Gives what is certain by now. */
  push(text: string, control: boolean): AnswerPart[];
  /**
   * The answer is over: what was waited with. Where it was cut off, by a limit or a stop string, what may have been the
   * beginning of a mark or a call is no text; a call whose name is known is given as far as it has come.
   */
  end(cut: boolean): AnswerPart[];
  /** Whether the last call lacks some of its arguments. */
  readonly hasOpenCall: boolean;
}

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

/** auto: text, in which each trigger begins a call; required: one or more calls and no text but reasoning. */
export type CallMode = 'auto' | 'required';

interface GrammarOptions {
  readonly tools: readonly Tool[];
  readonly mode: CallMode;
  /** Whether there may be more than one call. */
  readonly parallel: boolean;
  /** Whether the prompt ends inside of reasoning. */
  readonly opened: boolean;
}

export interface ReaderOptions {
  /** Only these may be called; without any, nothing is a call. */
  readonly tools: readonly Tool[];
  /** The end of the rendered prompt, which may have opened the reasoning. */
  readonly promptEnd: string;
  /** Whether the vocabulary has a control token of this spelling: then no plain text is that mark. */
  readonly isControl: (mark: string) => boolean;
  /** Whether reasoning is told apart from content; else it stays content, marks and all. */
  readonly thinks: boolean;
}

export interface AnswerFormat {
  readonly name: FormatName;
  /** Whether the format knows of reasoning. */
  readonly reasons: boolean;
  /** Every mark that means something in an answer, whether or not it is a control token. */
  readonly marks: readonly string[];
  /** Whether a prompt that ends so leaves the model inside of reasoning. */
  opened(promptEnd: string): boolean;
  /** What a whole answer may be where tools are offered. */
  grammar(options: GrammarOptions): Expression;
  /** What a whole answer may be that consists of `body`, after reasoning if there is any. */
  wrapped(body: Expression, opened: boolean): Expression;
  reader(options: ReaderOptions): AnswerReader;
}

export interface ToolFormat {
  readonly name: FormatName;
  /** What may be a control token, and whatever begins a call in the midst of an answer. */
  readonly marks: readonly string[];
  /** Behind reasoning, if there is any. */
  grammar(tools: readonly Tool[], mode: CallMode, parallel: boolean): Expression;
  /**
   * Takes calls where some stand here. Where it gives false, what it took since the tape last began is text.
   * `fresh`: the answer has held nothing but reasoning so far.
   */
  read(tape: Tape, writer: AnswerWriter, fresh: boolean): Reading<boolean>;
}
