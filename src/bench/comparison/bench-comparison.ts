// Loads a model into this process and compares one-by-one with batched serving on it.

import { calibratedBudget } from '../../engine/calibrate.ts';
import { describeModel, memoryNeed, type OfflineModel } from '../offline/offline-model.ts';
import { checkMemory } from '../offline/offline-settings.ts';
import type { BenchTarget } from '../offline/target.ts';
import { type ComparisonObserver, compare } from './compare.ts';
import type { ComparisonReport } from './comparison-report.ts';
import {
  type ComparisonOptions,
  comparisonBlocks,
  comparisonSettings,
  mostAtOnce,
} from './comparison-settings.ts';

export interface BenchObserver extends ComparisonObserver {
  /** The share of weights loaded, 0 to 1. */
  onLoad(share: number): void;
}

/** Throws an OfflineError where what is wanted cannot be met, before anything is loaded. */
export async function benchComparison(
  target: BenchTarget,
  model: OfflineModel,
  wanted: ComparisonOptions,
  observer: BenchObserver,
): Promise<ComparisonReport> {
  const { vocabSize, contextLength } = model.spec;
  const settings = comparisonSettings(wanted, contextLength);
  const { kvType, tokens, repeats, loads } = settings;
  const blockCount = comparisonBlocks(settings);
  const users = `${mostAtOnce(loads)} requests at once`;
  checkMemory(memoryNeed(target, model, kvType), blockCount, users, 'fewer at once, or shorter prompts');
  const beforeLoadingBytes = process.memoryUsage.rss();
  const started = performance.now();
  const backend = await target.create(model.spec, model.weights, {
    blockCount,
    kvType,
    onProgress: observer.onLoad,
  });
  const loadSeconds = (performance.now() - started) / 1000;
  const loadedBytes = process.memoryUsage.rss();
  try {
    const options = { blockCount, budget: await calibratedBudget(backend), vocabSize, contextLength };
    const found = await compare(backend, options, settings, observer);
    return {
      benchmark: 'comparison',
      model: describeModel(target, model, kvType, loadSeconds),
      machine: target.machine,
      outputTokens: tokens,
      repeats,
      memory: { beforeLoadingBytes, loadedBytes },
      ...found,
    };
  } finally {
    backend.close();
  }
}
