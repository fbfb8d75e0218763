// Marks of reasoning before the answer.

import { choice, type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { free, gap, mark } from './call-grammar.ts';
import type { ThinkingMarks } from './format.ts';
import { isSpace, type Reading, stopsOf, type Tape } from './tape.ts';

export interface ReasoningFormat {
  /** Alternatives; each is a sequence of marks. */
  readonly opens: readonly (readonly string[])[];
  readonly closes: readonly string[];
  /** Around the answer. */
  readonly answer?: { readonly open: string; readonly close: string } | undefined;
}

export const think: ReasoningFormat = { opens: [['<think>']], closes: ['</think>'] };
export const bracketThink: ReasoningFormat = { opens: [['[THINK]']], closes: ['[/THINK]'] };
export const seedThink: ReasoningFormat = { opens: [['<seed:think>']], closes: ['</seed:think>'] };
export const gemmaThought: ReasoningFormat = { opens: [['<|channel>', 'thought']], closes: ['<channel|>'] };
export const graniteThink: ReasoningFormat = {
  ...think,
  answer: { open: '<response>', close: '</response>' },
};
/** Quantized models shorten the sentence. */
export const graniteThought: ReasoningFormat = {
  opens: [['Here is my thought process:'], ["Here's my thought process:"]],
  closes: ['Here is my response:', "Here's my response:"],
};

export function reasoningMarks({ opens, closes, answer }: ReasoningFormat): string[] {
  return [...opens.flat(), ...closes, ...(answer === undefined ? [] : [answer.open, answer.close])];
}

export function thinkingMarks({ opens, closes }: ReasoningFormat): ThinkingMarks {
  return { opens: opens.map((marks) => marks.join('')), closes, ending: closes[0] as string };
}

export function opensReasoning(format: ReasoningFormat, promptEnd: string): boolean {
  const end = promptEnd.trimEnd();
  return format.opens.some((marks) => end.endsWith(marks.join('')));
}

/** Reasoning is optional unless the prompt has opened it. */
export function afterReasoning(format: ReasoningFormat, body: Expression, opened: boolean): Expression {
  const { opens, closes, answer } = format;
  const rest = sequence(free(...closes), choice(...closes.map(mark)), gap);
  const open = choice(...opens.map((marks) => sequence(...marks.map(mark))));
  const reasoning = opened ? rest : optional(sequence(open, rest));
  if (answer === undefined) return sequence(reasoning, body);
  return sequence(reasoning, optional(text(answer.open)), body, optional(text(answer.close)));
}

/** Marks in plain text count at the beginning alone: later, an answer may mention them. Control tokens always count. */
export function* tookOpen(format: ReasoningFormat, tape: Tape, fresh: boolean): Reading<boolean> {
  for (const marks of format.opens) {
    const [first = ''] = marks;
    if ((fresh || tape.isControl(first)) && (yield* tape.took(...marks))) return true;
  }
  return false;
}

/** From after the opening mark through the closing one and blanks. */
export function* readReasoning(format: ReasoningFormat, tape: Tape, writer: AnswerWriter): Reading {
  yield* tape.skipSpace();
  /** Blanks that count only where more follows. */
  let held = '';
  const stops = stopsOf(format.closes);
  for (;;) {
    tape.begin();
    if (yield* tape.tookAny(format.closes)) return yield* tape.skipSpace();
    const symbol = yield* tape.peek();
    if (symbol === undefined) return writer.reasoning(held);
    if (isSpace(symbol)) held += tape.take();
    else {
      writer.reasoning(held + (tape.plain(stops) || tape.take()));
      held = '';
    }
  }
}
