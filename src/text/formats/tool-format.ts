// How tools are called, apart from how a model reasons.

import type { Expression } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { CallMode, FormatName, Tool } from './format.ts';
import type { Reading, Tape } from './tape.ts';

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
