// The package's second entry, 'chairlift/engine': the parts that an engine is made of, for programs that put one together
// themselves. `test/engine-parts.test.ts` pins its names.

// biome-ignore-all lint/performance/noBarrelFile: a package's entry is one file, and this is one.
export {
  type Backend,
  type BackendName,
  type BackendOptions,
  type Batch,
  type BatchStates,
  BLOCK_TOKENS,
  type BlockMemory,
  type CreateBackend,
  type KvType,
  type StepResult,
} from './compute/backend.ts';
export { type BackendChoice, chooseBackend } from './compute/choose-backend.ts';
export type { BlockHolder } from './engine/cache/block-holder.ts';
export { type BlockList, BlockPool } from './engine/cache/block-pool.ts';
export { BlockTables, blocksFor } from './engine/cache/block-tables.ts';
export { checkCacheIntegrity } from './engine/cache/integrity.ts';
export { PrefixCache } from './engine/cache/prefix-cache.ts';
export type { PrefixNode } from './engine/cache/prefix-key.ts';
export { Engine, type EngineOptions, type EngineStats } from './engine/engine.ts';
export type { EngineClient } from './engine/engine-client.ts';
export type { EngineMonitor, EngineSubscriber, EngineSubscription } from './engine/engine-monitor.ts';
export type { ReportListener } from './engine/engine-reports.ts';
export { LocalEngine } from './engine/local-engine.ts';
export { planBatch } from './engine/plan-batch.ts';
export type {
  AnswerRequest,
  EmbedRequest,
  EndReason,
  EngineRequest,
  FinishEvent,
  RequestError,
  RequestErrorCode,
  RequestEvent,
  TokenEvent,
} from './engine/request.ts';
export { checkIntegrity } from './engine/scheduler/integrity.ts';
export { type AddResult, Scheduler, type SchedulerOptions } from './engine/scheduler/scheduler.ts';
export {
  type Priority,
  Sequence,
  type SequenceOptions,
  type SequenceState,
} from './engine/scheduler/sequence.ts';
export type { BlockDemand, BlockStats, SchedulerStats } from './engine/scheduler/stats.ts';
export type { StepItem, StepLoad, StepPlan } from './engine/scheduler/step-plan.ts';
export type { BudgetOptions } from './engine/scheduler/token-budget.ts';
export type { StepReport, StepSummary, StepTimes } from './engine/step-report.ts';
export type { ModelSpec } from './model/spec.ts';
export { type LocalModel, type LocalModelOptions, openLocalModel } from './pool/local-model.ts';
export { embeddedModelPath } from './pool/model-homes.ts';
export {
  type SamplingParameters,
  type SamplingRequest,
  type SamplingValidation,
  validateSampling,
} from './sampling/parameters.ts';
export type { SampleResult, SampleRow, SampleRows } from './sampling/sample-row.ts';
export { sampleRows } from './sampling/sampler.ts';
export type { Tokenizer } from './text/tokenizer.ts';
export type { WeightSource } from './weights/weight-source.ts';
