// Requests asked of an engine over a model with a head that drafts, or without it, and what came of them.

import { chooseBackend } from '../../src/compute/choose-backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { type CheckedAnswers, checkedAnswers } from './checked-answers.ts';
import { embeddedVocabulary } from './embedded-engine.ts';
import type { Answer, TestRequest } from './engine-requests.ts';

/** Opens a model, with its head or without. */
export type OpenWithHead = (head: boolean) => { readonly spec: ModelSpec; readonly weights: WeightSource };

/** Options under which nobody else drafts. */
export const headAlone = {
  newDrafter: () => ({ propose: () => undefined, extend() {}, rollBack() {}, accept() {} }),
};

/** What is asked together, one after the other. The head is there unless speculation is off. */
export async function drafting(
  open: OpenWithHead,
  asked: readonly (readonly TestRequest[])[],
  options: Partial<EngineOptions> = {},
): Promise<CheckedAnswers> {
  const { spec, weights } = open(options.speculation !== false);
  const { vocabSize, contextLength } = spec;
  const blockCount = options.blockCount ?? 128;
  const backend = await chooseBackend(undefined).create(spec, weights, { blockCount, stateSlots: 40 });
  const own = { blockCount, vocabSize, contextLength, endIds: [] };
  const budget = { kind: 'fixed', maxStepTokens: 256 } as const;
  const engine = new LocalEngine(backend, { budget, ...options, ...own }, evenClock());
  engine.setVocabulary(embeddedVocabulary);
  try {
    return await checkedAnswers(engine, asked, vocabSize);
  } finally {
    weights.close();
  }
}

/** All steps take as long, and so does whatever the head drafts before one. */
function evenClock(): () => number {
  let ms = 0;
  return () => ms++;
}

/** All but what tells of the draft tokens themselves, and of blocks. */
export const said = ({ tokens, logprobs, finish: { reason, error } }: Answer) => ({
  tokens,
  logprobs,
  reason,
  error,
});
