// The embedded model behind an engine in this process, its invariants checked after every step.

import type { Backend } from '../../src/compute/backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { vocabularyTables } from '../../src/grammar/vocabulary.ts';
import { embeddedModel, lendBackend } from './lent-backends.ts';

export const embeddedSpec = embeddedModel.spec;
export const embeddedTokenizer = embeddedModel.tokenizer;
export const embeddedVocabulary = vocabularyTables(embeddedModel.tokenizer);
export const embeddedEndIds = [...embeddedModel.tokenizer.eosIds];

export function chatIds(text: string): Int32Array {
  const rendered = `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
  return embeddedModel.tokenizer.encode(rendered, { special: true });
}

export async function withEngine<Result>(
  options: Partial<EngineOptions>,
  use: (engine: LocalEngine) => Promise<Result>,
  wrap: (backend: Backend) => Backend = (backend) => backend,
  nowMs?: () => number,
): Promise<Result> {
  const blockCount = options.blockCount ?? 512;
  const backend = await lendBackend(blockCount);
  const engineOptions: EngineOptions = {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: embeddedModel.spec.vocabSize,
    contextLength: embeddedModel.spec.contextLength,
    endIds: embeddedEndIds,
    ...options,
  };
  const engine = new LocalEngine(wrap(backend), engineOptions, nowMs);
  const checks = engine.monitor.subscribe({ step: () => checkIntegrity(engine.engine.scheduler) });
  try {
    return await use(engine);
  } finally {
    checks.end();
    await engine.close();
  }
}
