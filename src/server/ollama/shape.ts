// Answers as lines of JSON: pieces with `done: false`, then one with `done: true` that has the finish reason, the usage and
// the times.

import { contentOf, type GenerationPart, type TokenDetail } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import { type AnswerShape, entryOf, type ShapeOptions, validity, withDetails } from '../jobs/answer-shape.ts';
import type { RequestTimes } from '../request/request-record.ts';

interface Words {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: readonly object[];
}

/** Where a line has its text: in `message`, or in `response`. */
type Layout = (words: Words) => object;

export const messageLayout: Layout = ({ content = '', thinking, calls }) => ({
  message: {
    role: 'assistant',
    content,
    ...(thinking ? { thinking } : {}),
    ...(calls && calls.length > 0 ? { tool_calls: calls } : {}),
  },
});

export const responseLayout: Layout = ({ content = '', thinking }) => ({
  response: content,
  ...(thinking ? { thinking } : {}),
});

interface Call {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

export function ollamaShape(
  { model: served, logprobs, times }: Pick<ShapeOptions, 'model' | 'logprobs' | 'times'>,
  model: string,
  layout: Layout,
  contextOf: (text: string, reason: string) => object = () => ({}),
): AnswerShape {
  const line = (words: Words, more: object) => ({
    data: { model, created_at: nowText(), ...layout(words), ...more },
  });
  const entries = (details: readonly TokenDetail[]) =>
    logprobs && details.length > 0 ? { logprobs: details.map((detail) => entryOf(served, detail)) } : {};
  const calls = new OpenCalls();
  let reason = 'stop';
  let isValid: boolean | null | undefined;
  let text = '';
  const callLines = (complete: readonly object[]) =>
    complete.length === 0 ? [] : [line({ calls: complete }, { done: false })];
  const last = (usage: TokenUsage) => ({
    done: true,
    done_reason: reason,
    ...measured(usage, times()),
    ...validity({ isValid }),
  });
  return {
    opening: () => [],
    piece: (_index, { parts, details }) => {
      const lines = parts.flatMap((part) => partWords(part, calls));
      text += contentOf(parts);
      return withDetails(lines, details, {}).map(([words, own]) =>
        line(words, { done: false, ...entries(own) }),
      );
    },
    finish: (_index, end) => {
      reason = end.reason;
      isValid = end.isValid;
      return callLines(calls.end());
    },
    closing: (usage) => [line({}, { ...last(usage), ...contextOf(text, reason) })],
    failure: ({ message }) => [{ data: { error: message } }],
    whole: ([choice], usage) => {
      reason = choice?.reason ?? reason;
      isValid = choice?.isValid;
      const words = choice === undefined ? {} : wholeWords(choice);
      const context = contextOf(choice?.text ?? '', reason);
      return line(words, { ...last(usage), ...context, ...entries(choice?.details ?? []) }).data;
    },
  };
}

/**
 * The conversation so far as ids, with which a client goes on; the answer ends in it as the model ends its turns. An upstream
 * has none to give.
 */
export function contextAfter({ model, prompts }: Pick<ShapeOptions, 'model' | 'prompts'>) {
  return (text: string, reason: string): object => {
    if (model === undefined) return {};
    const { tokenizer } = model;
    const end = reason === 'stop' && tokenizer.eosId !== undefined ? [tokenizer.eosId] : [];
    return { context: [...(prompts[0]?.ids ?? []), ...tokenizer.encode(text), ...end] };
  };
}

/** The answer to a request without a prompt, which loads or unloads its model. */
export function emptyAnswer(model: string, layout: Layout, reason: 'load' | 'unload'): object {
  return { model, created_at: nowText(), ...layout({}), done: true, done_reason: reason };
}

function measured({ promptTokens, completionTokens }: TokenUsage, times: RequestTimes): object {
  return {
    total_duration: nanoseconds(times.totalMs),
    load_duration: nanoseconds(times.loadMs),
    prompt_eval_count: promptTokens,
    prompt_eval_duration: nanoseconds(times.promptMs),
    eval_count: completionTokens,
    eval_duration: nanoseconds(times.answerMs),
  };
}

/** Gathers calls, which are sent whole: a call is complete when something else follows. */
class OpenCalls {
  #open: Call | undefined;
  #count = 0;

  begin(id: string, name: string): object[] {
    const complete = this.end();
    this.#open = { id, name, arguments: '' };
    return complete;
  }

  extend(text: string): void {
    if (this.#open !== undefined) this.#open.arguments += text;
  }

  end(): object[] {
    const call = this.#open;
    this.#open = undefined;
    const written = call && callOf(call, this.#count);
    if (written === undefined) return [];
    this.#count++;
    return [written];
  }
}

function callOf({ id, name, arguments: text }: Call, index: number): object | undefined {
  const given = text.trim() === '' ? {} : parsedObject(text);
  return given && { id, function: { index, name, arguments: given } };
}

function parsedObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function partWords(part: GenerationPart, calls: OpenCalls): Words[] {
  const called = (complete: readonly object[]) => (complete.length === 0 ? [] : [{ calls: complete }]);
  switch (part.kind) {
    case 'content':
      return [...called(calls.end()), ...(part.text === '' ? [] : [{ content: part.text }])];
    case 'reasoning':
      return [...called(calls.end()), ...(part.text === '' ? [] : [{ thinking: part.text }])];
    case 'call':
      return called(calls.begin(part.id, part.name));
    case 'arguments':
      calls.extend(part.text);
      return [];
  }
}

function wholeWords({ text, reasoning, calls }: WholeChoice): Words {
  const whole = calls.map((call, index) => callOf(call, index)).filter((call) => call !== undefined);
  return { content: text, thinking: reasoning, calls: whole };
}

export function timeText(ms: number): string {
  const whole = Math.floor(ms);
  const rest = Math.round((ms - whole) * 1e6);
  const carried = rest === 1_000_000 ? whole + 1 : whole;
  const digits = String(rest === 1_000_000 ? 0 : rest).padStart(6, '0');
  return new Date(carried).toISOString().replace('Z', `${digits}Z`);
}

/** The clock has microseconds; the last digits are rounding noise. */
function nowText(): string {
  return timeText(performance.timeOrigin + performance.now());
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}
