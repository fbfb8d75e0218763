// Requests for the engine as tests write them, and their answers collected.

import { randomUUID } from 'node:crypto';
import type {
  EmbedRequest,
  EngineRequest,
  FinishEvent,
  Logprobs,
  RequestEvent,
  ScoreRequest,
} from '../../src/engine/request.ts';
import type { Priority } from '../../src/engine/scheduler/sequence.ts';
import type { GrammarTables } from '../../src/grammar/tables.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { type SamplingRequest, validateSampling } from '../../src/sampling/parameters.ts';
import type { ThinkingLimit } from '../../src/sampling/thinking-budget.ts';

export interface TestRequest {
  readonly prompt: ArrayLike<number>;
  readonly sampling?: SamplingRequest;
  readonly choice?: number;
  readonly answer?: readonly number[];
  readonly priority?: Priority;
  readonly salt?: string;
  readonly adapter?: number | undefined;
  readonly account?: string;
  readonly mask?: Uint32Array;
  readonly grammar?: GrammarTables;
  readonly expected?: Int32Array;
  readonly thinking?: ThinkingLimit;
  readonly enqueuedMs?: number;
}

/** Texts are written as their tokens; others have none. */
const tokensOf = (text: string) => (/^\d/.test(text) ? [text.split(' ').map(Number)] : []);
const spelling = { wordTokens: tokensOf, breakerTokens: tokensOf };

export function engineRequest(options: TestRequest, vocabSize = 4096): EngineRequest {
  const sampling = validateSampling(
    { temperature: 0, ...options.sampling },
    { vocabSize, freshSeed: { low: 1, high: 2 }, spelling },
  );
  if (!sampling.ok) throw new Error(`${sampling.parameter} ${sampling.problem}`);
  return {
    id: randomUUID(),
    prompt: Int32Array.from(options.prompt),
    choice: options.choice ?? 0,
    answer: options.answer ?? [],
    parameters: sampling.parameters,
    priority: options.priority ?? 1,
    salt: options.salt ?? '',
    adapter: options.adapter,
    account: options.account ?? '',
    enqueuedMs: options.enqueuedMs ?? Date.now(),
    ...(options.mask === undefined ? {} : { mask: options.mask }),
    ...(options.expected === undefined ? {} : { expected: options.expected }),
    ...(options.thinking === undefined ? {} : { thinking: options.thinking }),
    ...(options.grammar === undefined ? {} : { grammar: { tables: options.grammar, continues: false } }),
  };
}

export function embedRequest(
  prompt: ArrayLike<number>,
  pooling: Pooling,
  options: Pick<TestRequest, 'priority' | 'salt'> = {},
): EmbedRequest {
  return {
    id: randomUUID(),
    prompt: Int32Array.from(prompt),
    pooling,
    priority: options.priority ?? 1,
    salt: options.salt ?? '',
    account: '',
    enqueuedMs: Date.now(),
  };
}

export function scoreRequest(prompt: ArrayLike<number>, scoring: number, salt = ''): ScoreRequest {
  return {
    id: randomUUID(),
    prompt: Int32Array.from(prompt),
    scoring,
    priority: 1,
    salt,
    account: '',
    enqueuedMs: Date.now(),
  };
}

export interface Answer {
  readonly tokens: number[];
  /** Of each token, where they were asked for. */
  readonly logprobs: Logprobs[];
  readonly finish: FinishEvent;
}

export async function collect(events: AsyncIterable<RequestEvent>): Promise<Answer> {
  const tokens: number[] = [];
  const logprobs: Logprobs[] = [];
  let finish: FinishEvent | undefined;
  for await (const event of events) {
    if (finish !== undefined) throw new Error(`request ${event.id} goes on after its end`);
    if (event.kind === 'finish') finish = event;
    else {
      tokens.push(event.token);
      if (event.logprobs !== undefined) logprobs.push(event.logprobs);
    }
  }
  if (finish === undefined) throw new Error('the request did not end');
  return { tokens, logprobs, finish };
}
