// How many tokens a completion demands of its key's limits, and how long its answers may be where those leave less.

import type { CountedTokens, ServerContext } from '../context.ts';
import { AnswerBudget, shareTokens } from '../limits/answer-budget.ts';
import { limitsTokens, type Permit, type TokenDemand, type Weighed } from '../limits/key-limiter.ts';
import type { Caller } from '../request/auth.ts';
import type { Resumption } from './resumption.ts';

/** How many tokens all answers of a request may have together, where the key's limits leave fewer than were asked for. */
export const CAPPED_HEADER = 'x-ratelimit-capped-tokens';

interface Asked {
  readonly context: ServerContext;
  readonly caller: Caller;
  readonly choices: number;
  readonly resumption: Resumption | undefined;
}

/** How long an answer may be. */
interface AnswerLength {
  readonly minTokens: number;
  readonly maxTokens?: number | undefined;
}

interface AskedAnswers<Length extends AnswerLength> extends Asked {
  /** The most that a prompt and its answer may have together. */
  readonly room: number;
  /** Of each prompt. */
  readonly promptTokens: readonly number[];
  /** Of each prompt. */
  readonly parameters: readonly Length[];
}

interface GrantedAnswers<Length extends AnswerLength> {
  readonly parameters: readonly Length[];
  /** Set where only the limits of the key say how long answers may be. */
  readonly budget: AnswerBudget | undefined;
  readonly cappedTokens: number | undefined;
}

/** The demand before prompts are encoded: one token for each, and for each answer its limit or the usual length. */
export function earlyDemand(
  { context, caller, choices, resumption }: Asked,
  prompts: number,
  maxTokens: number | undefined,
): TokenDemand {
  const { typicalAnswer } = context;
  const usual = typicalAnswer.expect(caller.keyId, Number.POSITIVE_INFINITY, caller.limits.dailyTokens);
  const demand = {
    least: prompts * (1 + choices * Math.min(1, maxTokens ?? 1)),
    expected: prompts * (1 + choices * Math.min(usual, maxTokens ?? usual)),
  };
  return uncounted(demand, resumption);
}

/** An answer without a limit is expected to be as long as answers to this key usually are. */
export function demandOf(asked: AskedAnswers<AnswerLength>): TokenDemand {
  const { context, caller, room: whole, promptTokens, parameters, choices, resumption } = asked;
  const { keyId, limits } = caller;
  let least = sum(promptTokens);
  let expected = least;
  for (const [at, { minTokens, maxTokens }] of parameters.entries()) {
    const room = whole - (promptTokens[at] as number);
    // No client waits for a background answer: it runs later rather than be cut short.
    const needed = caller.background === true && maxTokens !== undefined ? maxTokens : Math.max(1, minTokens);
    const shortest = maxTokens === 0 ? 0 : needed;
    const usual = maxTokens ?? context.typicalAnswer.expect(keyId, room, limits.dailyTokens);
    least += choices * shortest;
    expected += choices * Math.max(shortest, usual);
  }
  return uncounted({ least, expected }, resumption);
}

/** What a resumed request had used before was counted then. */
function uncounted({ least, expected }: TokenDemand, resumption: Resumption | undefined): TokenDemand {
  const counted = countedTokens(resumption?.kept.counted);
  return { least: Math.max(0, least - counted), expected: Math.max(0, expected - counted) };
}

function countedTokens(counted: CountedTokens | undefined): number {
  return counted === undefined ? 0 : counted.promptTokens + counted.completionTokens;
}

export function grantAnswers<Length extends AnswerLength>(
  asked: AskedAnswers<Length>,
  permit: Permit,
  { heldTokens, mostTokens }: Extract<Weighed, { ok: true }>,
): GrantedAnswers<Length> {
  const { caller, room: whole, promptTokens, parameters, choices, resumption } = asked;
  const spent = countedTokens(resumption?.kept.counted) - sum(promptTokens);
  const ofAnswers = heldTokens + spent;
  const isOpen = parameters[0]?.maxTokens === undefined;
  if (!limitsTokens(caller.limits)) return { parameters, budget: undefined, cappedTokens: undefined };
  if (isOpen) {
    const room = choices * sum(promptTokens.map((tokens) => whole - tokens));
    const most = mostTokens + spent;
    const budget = new AnswerBudget(ofAnswers, permit, Date.now);
    return { parameters, budget, cappedTokens: most < room ? most : undefined };
  }
  const lengths = parameters.flatMap(({ maxTokens = 0 }) => Array<number>(choices).fill(maxTokens));
  if (sum(lengths) <= ofAnswers) return { parameters, budget: undefined, cappedTokens: undefined };
  const shared = shareTokens(lengths, ofAnswers);
  const capped = parameters.map((one, at) => ({ ...one, maxTokens: shared[at * choices] as number }));
  return { parameters: capped, budget: undefined, cappedTokens: sum(shared) };
}

function sum(lengths: readonly number[]): number {
  return lengths.reduce((total, length) => total + length, 0);
}
