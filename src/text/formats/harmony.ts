// Harmony, the format of gpt-oss: an answer is messages, each with a header for its channel and recipient. Reasoning,
// text and calls are all messages.

import { choice, type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import { AnswerWriter, answerReader } from './answer-writer.ts';
import { anyNumber, free, mark, objectSchema, oneOf } from './call-grammar.ts';
import type { AnswerFormat } from './format.ts';
import { jsonArguments } from './json-call.ts';
import { type Reading, Tape } from './tape.ts';

const begins: readonly string[] = ['<|start|>', '<|channel|>'];
const ends: readonly string[] = ['<|end|>', '<|return|>', '<|call|>'];
const message = '<|message|>';
const stops: ReadonlySet<string> = new Set('<');
const marks: readonly string[] = [...begins, ...ends, message, '<|constrain|>'];

/** Ends a message and begins the next. */
const toNext = sequence(mark('<|end|>'), mark('<|start|>'), text('assistant'));

function header(channel: string): Expression {
  return sequence(mark('<|channel|>'), text(channel), mark(message));
}

const body = free(...begins, ...ends);
const analysis = sequence(header('analysis'), body, toNext);
const preamble = sequence(header('commentary'), body, toNext);
const final = sequence(header('final'), body);

/** The mark after the arguments ends the answer: one call at most. */
function call(tools: readonly Tool[]): Expression {
  return oneOf(tools, (tool) =>
    sequence(
      mark('<|channel|>'),
      text(`commentary to=functions.${tool.name} `),
      mark('<|constrain|>'),
      text('json'),
      mark(message),
      objectSchema(tool),
    ),
  );
}

function afterReasoning(last: Expression, opened: boolean): Expression {
  return sequence(...(opened ? [body, toNext] : []), last);
}

export const harmony: AnswerFormat = {
  name: 'harmony',
  reasons: true,
  marks,
  thinking: {
    opens: ['<|channel|>analysis<|message|>'],
    closes: ['<|end|>'],
    ending: '<|end|><|start|>assistant<|channel|>final<|message|>',
  },
  opened: (promptEnd) => promptEnd.endsWith('<|channel|>analysis<|message|>'),
  grammar({ tools, mode, opened }) {
    const before = mode === 'auto' ? choice(analysis, preamble) : analysis;
    const last = mode === 'auto' ? choice(final, call(tools)) : call(tools);
    return afterReasoning(sequence(anyNumber(before), last), opened);
  },
  wrapped(answer, opened) {
    const constrained = optional(sequence(text(' '), mark('<|constrain|>'), text('json')));
    const last = sequence(mark('<|channel|>'), text('final'), constrained, mark(message), answer);
    return afterReasoning(sequence(anyNumber(analysis), last), opened);
  },
  reader({ tools, promptEnd, isControl, thinks }) {
    const tape = new Tape(isControl);
    const writer = new AnswerWriter(tools);
    const reading = readMessages(tape, writer, harmony.opened(promptEnd), thinks);
    return answerReader(tape, writer, new Set(marks), reading);
  },
};

function* readMessages(tape: Tape, writer: AnswerWriter, opened: boolean, thinks: boolean): Reading {
  if (opened && thinks) yield* readBody(tape, (symbol) => writer.reasoning(symbol));
  let fresh = !opened;
  while ((yield* tape.peek()) !== undefined) {
    tape.begin();
    const head = yield* readHeader(tape, fresh);
    fresh = false;
    if (head === undefined) writer.spill(tape);
    else if (head.recipient !== '') yield* readCall(tape, writer, head.recipient);
    else if (head.channel === 'analysis' && thinks) {
      yield* readBody(tape, (symbol) => writer.reasoning(symbol));
      continue;
    } else if (head.channel === 'analysis') writer.spill(tape);
    yield* readBody(tape, (symbol) => writer.content(symbol));
  }
}

/** A call of an unknown tool, or without valid arguments, stays text. */
function* readCall(tape: Tape, writer: AnswerWriter, recipient: string): Reading {
  const tool = writer.find(recipient.replace(/^functions\./, ''));
  if (tool !== undefined) {
    writer.pend(tool);
    yield* tape.skipSpace();
  }
  if (tool === undefined || !(yield* jsonArguments(tape, writer, tool))) return writer.spill(tape);
  tape.begin();
  for (const end of ends) if (yield* tape.tookBehindSpace(end)) return;
}

interface Header {
  readonly channel: string;
  /** Empty for the user. */
  readonly recipient: string;
}

/** Undefined where there is none, or it never ends. The prompt may have begun it. */
function* readHeader(tape: Tape, fresh: boolean): Reading<Header | undefined> {
  const recipients = fresh ? [' to=functions.', 'to=functions.'] : [];
  if (!(yield* tape.tookAny([...begins, ...recipients]))) return undefined;
  if ((yield* tape.until(message)) === undefined) return undefined;
  const head = tape.taken();
  const [, channel = ''] = /<\|channel\|>\s*(\w+)/.exec(head) ?? [];
  const [, recipient = ''] = /\bto=([^\s<]+)/.exec(head) ?? [];
  return { channel, recipient };
}

/** Up to and with the end mark, or up to the next message. */
function* readBody(tape: Tape, write: (text: string) => void): Reading {
  for (;;) {
    tape.begin();
    if (yield* tape.tookAny(ends)) return;
    for (const begin of begins) if (yield* tape.at(begin)) return;
    if ((yield* tape.peek()) === undefined) return;
    write(tape.plain(stops) || tape.take());
  }
}
