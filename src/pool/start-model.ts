// Brings one model into service: an engine process, or, where none can be had, an engine in this process
// without batching. The fallback is told, never silent.

import type { KvType } from '../compute/backend.ts';
import type { BackendName } from '../compute/choose-backend.ts';
import { loadEngine } from '../engine/load-engine.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import type { EngineSettings } from '../engine/protocol.ts';
import type { BudgetOptions } from '../engine/scheduler/token-budget.ts';
import type { EngineHandle } from './engine-handle.ts';
import type { LocalModel } from './local-model.ts';
import { EngineStartError, SupervisedEngine } from './supervised-engine.ts';

export interface EngineWish {
  readonly backend?: BackendName;
  readonly threads?: number;
  readonly kvType?: KvType;
  readonly maxBatchSize?: number;
  readonly contextLength?: number;
  readonly budget?: BudgetOptions;
  /** Batching off. */
  readonly direct?: boolean;
}

export interface StartedEngine {
  readonly handle: EngineHandle;
  readonly backend: BackendName;
  readonly direct: boolean;
  /** What a person should know: a slower backend, a fallback. */
  readonly notices: readonly string[];
}

export interface StartOptions {
  readonly onProgress?: (share: number) => void;
  readonly onIncident?: (message: string) => void;
}

export async function startEngine(
  model: LocalModel,
  blockCount: number,
  wish: EngineWish,
  options: StartOptions,
): Promise<StartedEngine> {
  const settings = engineSettings(model, blockCount, wish);
  try {
    const { engine, ready } = await SupervisedEngine.start(settings, options);
    const notices = ready.notice === undefined ? [] : [ready.notice];
    return { handle: engine, backend: ready.backend, direct: wish.direct === true, notices };
  } catch (error) {
    // What the model itself is to blame for would happen here again.
    if (error instanceof EngineStartError) throw error;
    return startInThisProcess(settings, error, options);
  }
}

async function startInThisProcess(
  settings: EngineSettings,
  cause: unknown,
  options: StartOptions,
): Promise<StartedEngine> {
  const {
    backend,
    options: engineOptions,
    choice,
  } = await loadEngine(settings, options.onProgress ?? (() => {}));
  const reason = cause instanceof Error ? cause.message : String(cause);
  return {
    handle: new LocalEngine(backend, { ...engineOptions, direct: true }),
    backend: choice.name,
    direct: true,
    notices: [
      `no engine process (${reason}): serving one request at a time from the server's own process`,
      ...(choice.notice === undefined ? [] : [choice.notice]),
    ],
  };
}

function engineSettings(
  { files, tokenizer }: LocalModel,
  blockCount: number,
  wish: EngineWish,
): EngineSettings {
  const { backend, threads, kvType, maxBatchSize, contextLength, budget, direct } = wish;
  return {
    modelPath: files.path,
    ...(backend === undefined ? {} : { backend }),
    ...(threads === undefined ? {} : { threads }),
    ...(kvType === undefined ? {} : { kvType }),
    engine: {
      blockCount,
      endIds: [...tokenizer.eosIds],
      ...(budget === undefined ? {} : { budget }),
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(direct === undefined ? {} : { direct }),
    },
  };
}
