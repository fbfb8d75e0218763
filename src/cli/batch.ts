// `chairlift batch --model PATH --prompts FILE.jsonl`: runs many prompts through the engine at once and writes
// the answers in the order of the prompts.

import { readFileSync, writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { type BackendName, backendNames } from '../compute/backend.ts';
import type { TokenUsage } from '../generation/answer-source.ts';
import { checkMessages } from '../generation/chat-prompt.ts';
import type { Generation } from '../generation/generation.ts';
import { GenerationError } from '../generation/generation-error.ts';
import { prepare } from '../generation/prepare.ts';
import type { PromptInput } from '../generation/prompt.ts';
import { directEncoder } from '../generation/prompt-encoder.ts';
import { samplingSettings, wireNames } from '../generation/sampling-settings.ts';
import { WholeAnswer } from '../generation/whole-answer.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters, SamplingRequest } from '../sampling/parameters.ts';
import { asUsageError, parseCount } from './flags.ts';
import { adapterOf, loadHere } from './loaded-here.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface BatchOptions {
  readonly model: string;
  readonly adapter?: string;
  readonly prompts: string;
  readonly output?: string;
  readonly maxBatchSize?: number;
  readonly maxTokens: number;
  readonly kvBlocks: number;
  readonly direct?: true;
  readonly backend?: BackendName;
}

interface PromptLine {
  readonly id: unknown;
  readonly input: PromptInput;
  readonly sampling: SamplingParameters;
}

interface LineResult {
  readonly whole: WholeAnswer;
  readonly usage: TokenUsage;
  readonly error?: string;
}

const names = { ...wireNames, prompt: 'prompt' };
const nothing: TokenUsage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

export function addBatch(program: Command): void {
  program
    .command('batch')
    .description('run many prompts through the engine, answers in input order')
    .requiredOption('-m, --model <path>', MODEL_MEANING, parseModel)
    .option('--adapter <path>', 'a LoRA adapter: a folder that PEFT or mlx-lm wrote, or a .gguf file')
    .requiredOption(
      '--prompts <file>',
      'JSON lines: {"prompt": …}, {"ids": […]} or {"messages": […]}, with sampling settings',
    )
    .option('--output <file>', 'where the answers go; standard output without it')
    .option('--max-batch-size <n>', 'sequences that run at once; without it, what memory allows', parseCount)
    .option('--max-tokens <n>', 'tokens of an answer where its line does not say', parseCount, 256)
    .option('--kv-blocks <n>', 'size of the KV cache in blocks of 32 tokens', parseCount, 2048)
    .option('--direct', 'no batching: one prompt after the other')
    .addOption(new Option('--backend <name>', 'what computes it').choices(backendNames))
    .action(run);
}

async function run(options: BatchOptions): Promise<void> {
  const local = openLocalModel(options.model, { adapters: adapterOf(options) });
  const lines = readLines(options, local);
  const { backend, maxBatchSize, direct, kvBlocks: blockCount } = options;
  const model = await loadHere(options.model, local, { blockCount, backend, maxBatchSize, direct });
  const generations = await Promise.all(lines.map((line) => prepareLine(line, model)));
  const started = performance.now();
  const results = await runAll(generations);
  const seconds = (performance.now() - started) / 1000;
  const stats = await model.engine.stats();
  await model.engine.close();
  const text = results.map((result, index) => JSON.stringify(outputOf(lines[index]?.id, result)));
  if (options.output === undefined) process.stdout.write(`${text.join('\n')}\n`);
  else writeFileSync(options.output, `${text.join('\n')}\n`);
  process.stderr.write(
    `${lines.length} prompts, ${stats.generatedTokens} tokens in ${seconds.toFixed(1)} s, ` +
      `${(stats.generatedTokens / seconds).toFixed(1)} tokens/s, ${stats.steps} steps, ` +
      `${stats.counters.preemptions} preemptions\n`,
  );
}

/** A prompt that cannot be answered does not affect the others. */
async function prepareLine(
  { input, sampling }: PromptLine,
  model: ServedModel,
): Promise<Generation | GenerationError> {
  try {
    const question = { model, input, sampling, names, encoder: directEncoder, priority: 2 } as const;
    // A signal for each: thousands of listeners on one look like a leak.
    return await prepare(question, new AbortController().signal);
  } catch (error) {
    if (error instanceof GenerationError) return error;
    throw error;
  }
}

async function runAll(generations: readonly (Generation | GenerationError)[]): Promise<LineResult[]> {
  const bar = progressBar('answering');
  let done = 0;
  const results = await Promise.all(
    generations.map(async (generation) => {
      const result = await runOne(generation);
      bar.update(++done / generations.length);
      return result;
    }),
  );
  bar.end();
  return results;
}

async function runOne(generation: Generation | GenerationError): Promise<LineResult> {
  const whole = new WholeAnswer(1);
  if (generation instanceof GenerationError) return { whole, usage: nothing, error: generation.message };
  try {
    for await (const event of generation.events()) whole.add(event);
    return { whole, usage: generation.usage };
  } catch (error) {
    if (!(error instanceof GenerationError)) throw error;
    return { whole, usage: generation.usage, error: error.message };
  }
}

function outputOf(id: unknown, { whole, usage, error }: LineResult): Record<string, unknown> {
  const [choice] = whole.choices;
  return {
    ...(id === undefined ? {} : { id }),
    ids: choice?.tokens,
    text: choice?.text,
    finish_reason: error === undefined ? choice?.reason : 'error',
    ...(error === undefined ? {} : { error }),
    usage: {
      prompt_tokens: usage.promptTokens,
      cached_tokens: usage.cachedTokens,
      completion_tokens: usage.completionTokens,
    },
  };
}

function readLines(options: BatchOptions, model: LocalModel): PromptLine[] {
  let text: string;
  try {
    text = readFileSync(options.prompts, 'utf8');
  } catch {
    throw new UsageError(`--prompts: ${options.prompts} cannot be read`);
  }
  const lines = text.split('\n').map((line, index) => ({ line: line.trim(), number: index + 1 }));
  const used = lines.filter(({ line }) => line !== '');
  if (used.length === 0) throw new UsageError(`--prompts: ${options.prompts} holds no prompts`);
  return used.map(({ line, number }) =>
    parseLine(line, `${options.prompts}, line ${number}`, options, model),
  );
}

function parseLine(line: string, where: string, options: BatchOptions, model: LocalModel): PromptLine {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line);
  } catch {
    throw new UsageError(`${where}: not JSON`);
  }
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw new UsageError(`${where}: give an object, such as {"prompt": "Hello"}`);
  }
  try {
    return {
      id: fields.id,
      input: inputOf(fields, where, model),
      sampling: samplingSettings(samplingOf(fields, where, options), model, names),
    };
  } catch (error) {
    throw asUsageError(error, where);
  }
}

/** What a line may say of sampling, by its JSON names. */
const samplingNames = new Map(
  Object.entries(wireNames)
    .filter(([name]) => !['logitBias', 'logprobs', 'stopIds', 'allowedTokenIds'].includes(name))
    .map(([name, wire]) => [wire as string, name]),
);

function samplingOf(fields: Record<string, unknown>, where: string, options: BatchOptions): SamplingRequest {
  const sampling: Record<string, unknown> = { temperature: 0, maxTokens: options.maxTokens };
  for (const [name, value] of Object.entries(fields)) {
    if (['id', 'prompt', 'ids', 'messages'].includes(name)) continue;
    const known = samplingNames.get(name);
    if (known === undefined) throw new UsageError(`${where}: ${name} is not known`);
    sampling[known] = value;
  }
  return sampling;
}

function inputOf(fields: Record<string, unknown>, where: string, { template }: LocalModel): PromptInput {
  const { prompt, ids, messages } = fields;
  if (typeof prompt === 'string') return { kind: 'text', text: prompt };
  if (Array.isArray(ids)) return { kind: 'ids', ids };
  if (messages === undefined) throw new UsageError(`${where}: give a "prompt", "ids" or "messages"`);
  if (template === undefined)
    throw new UsageError(`${where}: this model has no chat template; give a prompt`);
  return { kind: 'chat', messages: checkMessages(messages) };
}
