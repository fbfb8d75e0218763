// Requests for the engine as tests write them, and their answers collected.

import { randomUUID } from 'node:crypto';
import type { EngineRequest, FinishEvent, RequestEvent } from '../../src/engine/request.ts';
import type { Priority } from '../../src/engine/sequence.ts';
import { type SamplingRequest, validateSampling } from '../../src/sampling/parameters.ts';

export interface TestRequest {
  readonly prompt: ArrayLike<number>;
  readonly sampling?: SamplingRequest;
  readonly choices?: number;
  readonly priority?: Priority;
  readonly tenant?: string;
  readonly mask?: Uint32Array;
  readonly enqueuedMs?: number;
}

export function engineRequest(options: TestRequest, vocabSize = 4096): EngineRequest {
  const sampling = validateSampling(
    { temperature: 0, ...options.sampling },
    { vocabSize, freshSeed: { low: 1, high: 2 } },
  );
  if (!sampling.ok) throw new Error(`${sampling.parameter} ${sampling.problem}`);
  return {
    id: randomUUID(),
    prompt: Int32Array.from(options.prompt),
    choices: options.choices ?? 1,
    parameters: sampling.parameters,
    priority: options.priority ?? 1,
    tenant: options.tenant ?? '',
    enqueuedMs: options.enqueuedMs ?? Date.now(),
    ...(options.mask === undefined ? {} : { mask: options.mask }),
  };
}

export interface Answer {
  /** Tokens of each choice. */
  readonly tokens: number[][];
  readonly finishes: FinishEvent[];
}

export async function collect(events: AsyncIterable<RequestEvent>): Promise<Answer> {
  const answer: Answer = { tokens: [], finishes: [] };
  for await (const event of events) {
    if (event.kind === 'finish') answer.finishes[event.choice] = event;
    else {
      answer.tokens[event.choice] ??= [];
      answer.tokens[event.choice]?.push(event.token);
    }
  }
  return answer;
}
