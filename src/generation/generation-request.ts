// What is asked of a generation: prompts, how their answers are sampled and read, and whose they are.

import type { EngineRequest, Priority } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { AnswerPlan } from './answer-plan.ts';
import type { Prompt } from './context-room.ts';
import type { ParameterNames } from './generation-error.ts';

export interface GenerationRequest {
  readonly id: string;
  readonly model: Pick<ServedModel, 'name' | 'adapter' | 'spec' | 'tokenizer' | 'engine'>;
  readonly prompts: readonly Prompt[];
  /** Answers to each prompt. Default 1. */
  readonly choices?: number;
  /** For each prompt: maxTokens depends on the room that a prompt leaves. */
  readonly parameters: readonly SamplingParameters[];
  /** For each prompt. Default: any text. */
  readonly plans?: readonly AnswerPlan[] | undefined;
  /** Of each choice, the first tokens: what was sampled before, by whatever computes the same. Default: none. */
  readonly known?: readonly (readonly number[])[] | undefined;
  /** Predicted output, in tokens, for draft tokens. */
  readonly expected?: Int32Array | undefined;
  /** How many alternatives are reported with each token of the prompts. Default: prompts are not scored. */
  readonly scoring?: number | undefined;
  /** For each prompt, its text where answers begin with it and its scores. Default: they do not. */
  readonly scoredEchoes?: readonly string[] | undefined;
  readonly stops?: readonly string[] | undefined;
  /** Shows the stop string, or the stop token, that ends an answer. Default false. */
  readonly showsStop?: boolean | undefined;
  /** Ends an answer that has taken this long since its first token and has a line break. Default: no limit. */
  readonly maxAnswerMs?: number | undefined;
  /** Shows control tokens as they are spelled. Default false. */
  readonly special?: boolean | undefined;
  readonly priority?: Priority | undefined;
  /** Prefixes are shared only among requests with the same salt. Default: one for all. */
  readonly salt?: string;
  /** The slot that it leaves its prefix in, where prefixes are saved. Default: the lowest that is free. */
  readonly slot?: number | undefined;
  /** Within a tier, the account with the least work so far goes first. Default: one for all. */
  readonly account?: string;
  /** The fraction of KV blocks, above 0 and up to 1, that the account may hold. Default: no limit. */
  readonly kvShare?: number | undefined;
  /** Its place among the account's own waiting requests, in seconds of waiting. Default 0. */
  readonly order?: number | undefined;
  /** Milliseconds since 1970. Default: now. */
  readonly enqueuedMs?: number;
  /** The how manieth time its client comes back to it, 0 where it may: engines may know it. Default: never. */
  readonly takeover?: number | undefined;
  readonly budget?: TokenBudget | undefined;
  /** Default: no trace is taken of it. */
  readonly trace?: EngineRequest['trace'];
  readonly names: Pick<ParameterNames, 'logitBias'>;
}

interface TokenBudget {
  /** Called before each token; false ends the answer without it. */
  take(): boolean | Promise<boolean>;
}

type QueueField = 'priority' | 'salt' | 'slot' | 'account' | 'kvShare' | 'order' | 'enqueuedMs' | 'trace';

interface QueuedRequest extends Pick<GenerationRequest, QueueField> {
  readonly model: Pick<ServedModel, 'adapter'>;
}

/** Whose a request is and where it waits: the same for everything that an engine is asked for. */
export function queueFields({
  model: { adapter },
  priority = 1,
  salt = '',
  slot,
  account = '',
  kvShare,
  order,
  enqueuedMs = Date.now(),
  trace,
}: QueuedRequest): Pick<EngineRequest, QueueField | 'adapter'> {
  return {
    priority,
    salt,
    adapter,
    account,
    ...(kvShare === undefined ? {} : { kvShare }),
    ...(order === undefined ? {} : { order }),
    ...(slot === undefined ? {} : { slot }),
    enqueuedMs,
    ...(trace === undefined ? {} : { trace }),
  };
}
