// Answers in a form that can be compared: the same for a stream and for a whole body, without what may differ from
// one time to the next (ids, times, how much was cached).

export interface AnswerChoice {
  readonly text: string;
  readonly reason: string | null;
  /** One entry a token; empty where none were asked for. */
  readonly logprobs: readonly unknown[];
}

/** Prompt tokens include those that were cached. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export interface CompletionAnswer {
  readonly choices: readonly AnswerChoice[];
  readonly usage: TokenUsage | undefined;
}

interface WireUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly number[];
  readonly top_logprobs: readonly unknown[];
  readonly text_offset: readonly number[];
}

interface WireChoice {
  readonly index: number;
  readonly text?: string;
  readonly message?: { readonly content?: string };
  readonly delta?: { readonly content?: string };
  readonly logprobs?: { readonly content: readonly unknown[] } | TextLogprobs | null;
  readonly finish_reason: string | null;
}

export interface WireAnswer {
  readonly choices?: readonly WireChoice[];
  readonly usage?: WireUsage | null;
}

/** From one body, or from the chunks of a stream in order. */
export function answerOf(parts: readonly WireAnswer[]): CompletionAnswer {
  const choices: { text: string; reason: string | null; logprobs: unknown[] }[] = [];
  let usage: CompletionAnswer['usage'];
  for (const part of parts) {
    if (part.usage !== undefined && part.usage !== null) {
      usage = { promptTokens: part.usage.prompt_tokens, completionTokens: part.usage.completion_tokens };
    }
    for (const wire of part.choices ?? []) {
      choices[wire.index] ??= { text: '', reason: null, logprobs: [] };
      const choice = choices[wire.index] as (typeof choices)[number];
      choice.text += wire.text ?? wire.message?.content ?? wire.delta?.content ?? '';
      choice.reason = wire.finish_reason ?? choice.reason;
      choice.logprobs.push(...logprobsOf(wire.logprobs));
    }
  }
  return { choices, usage };
}

function logprobsOf(logprobs: WireChoice['logprobs']): readonly unknown[] {
  if (logprobs === undefined || logprobs === null) return [];
  if ('content' in logprobs) return logprobs.content;
  const { tokens, token_logprobs, top_logprobs, text_offset } = logprobs;
  return tokens.map((token, at) => [token, token_logprobs[at], top_logprobs[at], text_offset[at]]);
}

/**
 * Where an answer is no beginning of the right one. What a budget has cut says so by its reason, and may end in half a
 * character.
 */
export function beginningProblem(expected: CompletionAnswer, got: CompletionAnswer): string | undefined {
  for (const [index, choice] of got.choices.entries()) {
    const right = expected.choices[index];
    if (right === undefined) return `choice ${index} is one too many`;
    const same = difference(right, choice);
    if (same === undefined) continue;
    const text = choice.text.replace(/\uFFFD+$/, '');
    if (!right.text.startsWith(text)) return difference(right.text, choice.text, `choices.${index}.text`);
    const logprobs = right.logprobs.slice(0, choice.logprobs.length);
    const likely = difference(logprobs, choice.logprobs, `choices.${index}.logprobs`);
    if (likely !== undefined) return likely;
    if (!cutReasons.has(choice.reason ?? ''))
      return `choices.${index}.reason: a shorter answer with ${choice.reason}`;
  }
  return undefined;
}

/** That an answer may not be longer, in the words of each protocol. */
const cutReasons: ReadonlySet<string> = new Set(['length', 'incomplete', 'max_tokens']);

/** Where two values first differ, as a path with both sides; undefined where they are equal. */
export function difference(expected: unknown, got: unknown, path = ''): string | undefined {
  if (Object.is(expected, got)) return undefined;
  if (typeof expected === 'string' && typeof got === 'string') return textDifference(expected, got, path);
  if (!isObject(expected) || !isObject(got)) {
    return `${path || 'value'}: expected ${excerpt(expected)}, got ${excerpt(got)}`;
  }
  for (const key of new Set([...Object.keys(expected), ...Object.keys(got)])) {
    const found = difference(expected[key], got[key], path === '' ? key : `${path}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function textDifference(expected: string, got: string, path: string): string {
  let at = 0;
  while (at < expected.length && expected[at] === got[at]) at++;
  const from = Math.max(0, at - 20);
  const part = (text: string) => JSON.stringify(text.slice(from, at + 40));
  return `${path} differs from character ${at} on: expected ${part(expected)}, got ${part(got)}`;
}

function excerpt(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 200);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
