// One trial: a load of requests through an engine of its own, so that nothing is cached. It may hold no more blocks than
// its requests need, and their memory goes back afterwards, so that its peak is its own.

import type { Backend } from '../../compute/backend.ts';
import { blocksFor } from '../../engine/cache/block-tables.ts';
import { MeasuredEngine, type MeasuredEngineOptions } from '../offline/measured-engine.ts';
import { type Distribution, distributionOf } from '../serve/statistics.ts';
import type { Served, ServedSpeed } from './comparison-report.ts';

const LOOK_EVERY_MS = 20;

export interface Trial extends ServedSpeed {
  /** In the order of the prompts. */
  readonly answers: readonly (readonly number[])[];
}

interface TrialLoad {
  readonly served: Served;
  readonly prompts: readonly Int32Array[];
  readonly concurrency: number;
  /** Of each answer. */
  readonly tokens: number;
}

export async function runTrial(
  backend: Backend,
  options: MeasuredEngineOptions,
  { served, prompts, concurrency, tokens }: TrialLoad,
): Promise<Trial> {
  const direct = served === 'oneByOne';
  const longest = Math.max(...prompts.map(({ length }) => length)) + tokens;
  const blockLimit = (direct ? 1 : concurrency) * blocksFor(longest);
  const engine = new MeasuredEngine(backend, { ...options, blockLimit, direct });
  const stopWatching = watchResidentMemory();
  try {
    const requests = prompts.map((prompt) => ({ prompt, outputTokens: tokens }));
    const { ms, answers } = await engine.run(requests, concurrency);
    const latencies = answers.map(({ submittedMs, endMs }) => endMs - submittedMs);
    const firstTokens = answers.map(({ submittedMs, firstTokenMs }) => firstTokenMs - submittedMs);
    return {
      latencyMs: distributionOf(latencies) as Distribution,
      firstTokenMs: distributionOf(firstTokens) as Distribution,
      tokensPerSecond: (1000 * prompts.length * tokens) / ms,
      seconds: ms / 1000,
      peakMemoryBytes: stopWatching(),
      answers: answers.map((answer) => answer.tokens),
    };
  } finally {
    stopWatching();
    await engine.close();
    backend.releaseBlocks(Int32Array.from({ length: backend.blockCount }, (_, block) => block));
  }
}

/** Of this process, until the returned function is called, which gives the most that was seen. */
function watchResidentMemory(): () => number {
  let mostBytes = process.memoryUsage.rss();
  const look = () => {
    mostBytes = Math.max(mostBytes, process.memoryUsage.rss());
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return () => {
    clearInterval(timer);
    look();
    return mostBytes;
  };
}
