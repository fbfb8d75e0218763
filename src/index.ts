// The package's public face: everything a program may import from 'chairlift'.

// biome-ignore-all lint/performance/noBarrelFile: a package has one entry, and this is it.
export type { Answer } from './app/answer.ts';
export { type BenchmarkOptions, type BenchmarkReport, benchmark } from './app/benchmark.ts';
export type {
  ChatOptions,
  EmbedOptions,
  StructureOptions,
  TextOptions,
  TokenOptions,
  ToolDescription,
  ToolOptions,
} from './app/call-options.ts';
export { ChairliftError, type ChairliftErrorCode } from './app/chairlift-error.ts';
export { type LoadOptions, load, type Model } from './app/loaded-model.ts';
export type { EmbedResult, TextResult, TokenPiece, TokensResult } from './app/model-calls.ts';
export { type RunningServer, type ServeOptions, serve } from './app/serve.ts';
export type { EngineStats } from './engine/engine.ts';
export type { ChatMessage } from './generation/chat-prompt.ts';
export type { WholeCall as ToolCall } from './generation/whole-answer.ts';
export type { Tokenizer } from './text/tokenizer.ts';
