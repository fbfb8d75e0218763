// `chairlift batch --model PATH --prompts FILE.jsonl`: runs many prompts through the engine at once and writes
// the answers in the order of the prompts.

import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { type BackendName, chooseBackend } from '../compute/choose-backend.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import type { EngineRequest, FinishEvent } from '../engine/request.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import { type SamplingRequest, validateSampling } from '../sampling/parameters.ts';
import { seedFrom } from '../sampling/random.ts';
import { parseCount } from './arguments.ts';
import { progressBar } from './progress-bar.ts';
import { UsageError } from './usage-error.ts';

interface BatchOptions {
  readonly model: string;
  readonly prompts: string;
  readonly output?: string;
  readonly maxBatchSize?: number;
  readonly maxTokens: number;
  readonly kvBlocks: number;
  readonly direct?: true;
  readonly backend?: BackendName;
}

interface PromptLine {
  readonly request: EngineRequest;
  readonly id: unknown;
}

interface Answer {
  readonly tokens: readonly number[];
  readonly finish: FinishEvent | undefined;
}

export function addBatch(program: Command): void {
  program
    .command('batch')
    .description('run many prompts through the engine, answers in input order')
    .requiredOption('--model <path>', 'a .gguf file, a .safetensors file or a model folder')
    .requiredOption(
      '--prompts <file>',
      'JSON lines: {"prompt": …}, {"ids": […]} or {"messages": […]}, with sampling settings',
    )
    .option('--output <file>', 'where the answers go; standard output without it')
    .option('--max-batch-size <n>', 'sequences that run at once; without it, what memory allows', parseCount)
    .option('--max-tokens <n>', 'tokens of an answer where its line does not say', parseCount, 256)
    .option('--kv-blocks <n>', 'size of the K/V cache in blocks of 32 tokens', parseCount, 2048)
    .option('--direct', 'no batching: one prompt after the other')
    .addOption(new Option('--backend <name>', 'what computes it').choices(['cpu', 'reference']))
    .action(run);
}

async function run(options: BatchOptions): Promise<void> {
  const model = openLocalModel(options.model);
  const lines = readLines(options, model);
  const engine = await startEngine(model, options);
  const started = performance.now();
  const answers = await runAll(engine, lines);
  const seconds = (performance.now() - started) / 1000;
  const stats = await engine.stats();
  await engine.close();
  const text = lines.map((line, index) => JSON.stringify(result(line, answers[index] as Answer, model)));
  if (options.output === undefined) process.stdout.write(`${text.join('\n')}\n`);
  else writeFileSync(options.output, `${text.join('\n')}\n`);
  process.stderr.write(
    `${lines.length} prompts, ${stats.generatedTokens} tokens in ${seconds.toFixed(1)} s, ` +
      `${(stats.generatedTokens / seconds).toFixed(1)} tokens/s, ${stats.steps} steps, ` +
      `${stats.counters.preemptions} preemptions\n`,
  );
}

async function startEngine(
  { spec, files, tokenizer, close }: LocalModel,
  options: BatchOptions,
): Promise<LocalEngine> {
  const choice = chooseBackend(options.backend);
  if (choice.notice) process.stderr.write(`${choice.notice}\n`);
  const bar = progressBar('loading');
  const blockCount = options.kvBlocks;
  const backend = await choice.create(spec, files.weights, { blockCount, onProgress: bar.update });
  bar.end();
  close();
  return new LocalEngine(backend, {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 512 },
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [...tokenizer.eosIds],
    direct: options.direct === true,
    ...(options.maxBatchSize === undefined ? {} : { maxBatchSize: options.maxBatchSize }),
  });
}

async function runAll(engine: LocalEngine, lines: readonly PromptLine[]): Promise<Answer[]> {
  const bar = progressBar('answering');
  let done = 0;
  const answers = await Promise.all(
    lines.map(async ({ request }): Promise<Answer> => {
      const tokens: number[] = [];
      let finish: FinishEvent | undefined;
      for await (const event of engine.submit(request)) {
        if (event.kind === 'token') tokens.push(event.token);
        else finish = event;
      }
      bar.update(++done / lines.length);
      return { tokens, finish };
    }),
  );
  bar.end();
  return answers;
}

function result(
  { id }: PromptLine,
  { tokens, finish }: Answer,
  { tokenizer }: LocalModel,
): Record<string, unknown> {
  return {
    ...(id === undefined ? {} : { id }),
    ids: tokens,
    text: tokenizer.decode(tokens),
    finish_reason: finish?.reason,
    ...(finish?.error === undefined ? {} : { error: finish.error.message }),
    usage: {
      prompt_tokens: finish?.promptTokens,
      cached_tokens: finish?.cachedTokens,
      completion_tokens: finish?.generatedTokens,
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
  const { vocabSize } = model.spec;
  const freshSeed = seedFrom(randomBytes(8).readBigUInt64LE());
  const sampling = validateSampling(samplingOf(fields, where, options), { vocabSize, freshSeed });
  if (!sampling.ok) throw new UsageError(`${where}: ${sampling.parameter} ${sampling.problem}`);
  return {
    id: fields.id,
    request: {
      id: where,
      prompt: promptOf(fields, where, model),
      choices: 1,
      parameters: sampling.parameters,
      priority: 2,
      tenant: '',
      enqueuedMs: Date.now(),
    },
  };
}

const samplingNames = {
  temperature: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  typical_p: 'typicalP',
  repetition_penalty: 'repetitionPenalty',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  seed: 'seed',
  max_tokens: 'maxTokens',
  min_tokens: 'minTokens',
  ignore_eos: 'ignoreEos',
} as const satisfies Record<string, keyof SamplingRequest>;

function samplingOf(fields: Record<string, unknown>, where: string, options: BatchOptions): SamplingRequest {
  const sampling: Record<string, unknown> = { temperature: 0, maxTokens: options.maxTokens };
  for (const [name, value] of Object.entries(fields)) {
    if (['id', 'prompt', 'ids', 'messages'].includes(name)) continue;
    const known = samplingNames[name as keyof typeof samplingNames];
    if (known === undefined) throw new UsageError(`${where}: ${name} is not known`);
    sampling[known] = value;
  }
  return sampling;
}

function promptOf(
  fields: Record<string, unknown>,
  where: string,
  { tokenizer, template }: LocalModel,
): Int32Array {
  const { prompt, ids, messages } = fields;
  if (typeof prompt === 'string') return tokenizer.encode(prompt, { special: true, bos: true });
  if (Array.isArray(ids) && ids.every((id) => Number.isSafeInteger(id))) return Int32Array.from(ids);
  if (Array.isArray(messages)) {
    if (template === undefined)
      throw new UsageError(`${where}: this model has no chat template; give a prompt`);
    return tokenizer.encode(template.render({ messages, addGenerationPrompt: true }), { special: true });
  }
  throw new UsageError(`${where}: give a "prompt", "ids" or "messages"`);
}
