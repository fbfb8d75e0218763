// `benchmark`: what batching is worth on this machine with a model, as a function of the library, measured on what `serve` would
// compute with.

import { resolve } from 'node:path';
import { benchComparison } from '../bench/comparison/compare.ts';
import type { ComparisonReport } from '../bench/comparison/comparison-report.ts';
import type { ComparisonOptions } from '../bench/comparison/comparison-settings.ts';
import { OfflineError, type OfflineModel, openOfflineModel } from '../bench/offline/offline-settings.ts';
import type { BenchTarget } from '../bench/offline/target.ts';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { GpuUnavailableError } from '../compute/webgpu/gpu.ts';
import { embeddedModelPath } from '../pool/model-homes.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { chooseBenchTarget, type TargetOptions } from './bench-target.ts';
import { ChairliftError, invalidValue } from './chairlift-error.ts';

export interface BenchmarkOptions extends ComparisonOptions {
  /** What computes; as a server would choose where absent. */
  readonly backend?: 'cpu' | 'cuda' | 'webgpu' | undefined;
  readonly gpu?: string | undefined;
  /** A .gguf file, a .safetensors file or a model folder; the embedded model where absent. */
  readonly path?: string | undefined;
  /** Told what is measured next. */
  readonly onPhase?: ((text: string) => void) | undefined;
  /** Ends the benchmark before its next trial; it then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export type BenchmarkReport = ComparisonReport;

const known: Readonly<Record<keyof ComparisonOptions, true>> = {
  prompts: true,
  concurrencies: true,
  tokens: true,
  requests: true,
  repeats: true,
  threads: true,
  kvType: true,
};

/** Compares serving requests one by one with batching them. Takes its time: seconds to minutes. */
export async function benchmark(options: BenchmarkOptions = {}): Promise<BenchmarkReport> {
  const { path, backend, gpu, onPhase = () => {}, signal, ...wanted } = options;
  const unknown = Object.keys(wanted).find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw invalidValue(unknown, 'there is no such option of benchmark()');
  const target = await chooseTarget({ backend, gpu, threads: wanted.threads });
  const model = openModel(resolve(path ?? embeddedModelPath()));
  try {
    return await benchComparison(target, model, wanted, { onLoad: () => {}, onPhase, signal });
  } catch (error) {
    throw asRefusal(error);
  } finally {
    model.weights.close();
  }
}

async function chooseTarget(options: TargetOptions): Promise<BenchTarget> {
  try {
    return await chooseBenchTarget(options);
  } catch (error) {
    if (!(error instanceof BackendUnavailableError || error instanceof GpuUnavailableError)) throw error;
    throw new ChairliftError('model_load_failed', error.message, error);
  }
}

function openModel(path: string): OfflineModel {
  try {
    return openOfflineModel(path);
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    throw new ChairliftError('model_load_failed', error.message, error);
  }
}

function asRefusal(error: unknown): unknown {
  if (error instanceof BackendUnavailableError) {
    return new ChairliftError('model_load_failed', error.message, error);
  }
  if (!(error instanceof OfflineError)) return error;
  const { option, message } = error;
  return option === undefined
    ? new ChairliftError('model_does_not_fit', message, error)
    : invalidValue(option, message);
}
