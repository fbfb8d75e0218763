// The answers of an engine to groups of requests, one group after the other, the members of one together. Its scheduler is checked
// after every step, and the engine is closed at the end.

import type { LocalEngine } from '../../src/engine/local-engine.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { type Answer, collect, engineRequest, type TestRequest } from './engine-requests.ts';

export interface CheckedAnswers {
  readonly answers: readonly Answer[];
  readonly steps: number;
  readonly hits: number;
  readonly preemptions: number;
}

export async function checkedAnswers(
  engine: LocalEngine,
  groups: readonly (readonly TestRequest[])[],
  vocabSize: number,
): Promise<CheckedAnswers> {
  const checks = engine.monitor.subscribe({ step: () => checkIntegrity(engine.engine.scheduler) });
  try {
    const answers: Answer[] = [];
    for (const group of groups) {
      const submitted = group.map((one) => collect(engine.submit(engineRequest(one, vocabSize))));
      answers.push(...(await Promise.all(submitted)));
    }
    const { prefixHitTokens: hits, preemptions } = engine.engine.scheduler.stats(0).counters;
    return { answers, steps: (await engine.stats()).steps, hits, preemptions };
  } finally {
    checks.end();
    await engine.close();
  }
}
