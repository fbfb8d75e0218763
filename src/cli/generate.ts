// `chairlift generate --model PATH --prompt TEXT`: continues a prompt, as the text comes.

import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import { type BackendName, chooseBackend } from '../compute/choose-backend.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import type { EngineRequest, FinishEvent } from '../engine/request.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import { type SamplingParameters, validateSampling } from '../sampling/parameters.ts';
import { seedFrom } from '../sampling/random.ts';
import { Detokenizer } from '../text/detokenizer.ts';
import { parseCount, parseIds, parseInteger, parseTemperature } from './arguments.ts';
import { progressBar } from './progress-bar.ts';
import { UsageError } from './usage-error.ts';

interface GenerateOptions {
  readonly model: string;
  readonly prompt?: string;
  readonly ids?: readonly number[];
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed?: number;
  readonly ignoreEos?: true;
  readonly backend?: BackendName;
  readonly json?: true;
}

export function addGenerate(program: Command): void {
  program
    .command('generate')
    .description('continue a prompt')
    .requiredOption('--model <path>', 'a .gguf file, a .safetensors file or a model folder')
    .option('--prompt <text>', 'the text to continue; special tokens in it are parsed')
    .option('--ids <list>', 'the token ids to continue, separated by commas', parseIds)
    .option('--max-tokens <n>', 'how many tokens at most', parseCount, 256)
    .option('--temperature <t>', '0 takes the likeliest token each time', parseTemperature, 0)
    .option('--seed <n>', 'the same seed draws the same text', parseInteger)
    .option('--ignore-eos', 'go on past the end of the text')
    .addOption(new Option('--backend <name>', 'what computes it').choices(['cpu', 'reference']))
    .option('--json', 'print JSON')
    .action(run);
}

async function run(options: GenerateOptions): Promise<void> {
  const choice = chooseBackend(options.backend);
  if (choice.notice) process.stderr.write(`${choice.notice}\n`);
  const model = openLocalModel(options.model);
  const { spec, tokenizer } = model;
  const prompt = promptOf(options, model);
  const length = Math.min(spec.contextLength, prompt.length + options.maxTokens);
  const bar = progressBar('loading');
  const blockCount = Math.ceil(length / BLOCK_TOKENS);
  const backend = await choice.create(spec, model.files.weights, { blockCount, onProgress: bar.update });
  bar.end();
  model.close();
  const engine = new LocalEngine(backend, {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 512 },
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [...tokenizer.eosIds],
  });
  await generate(engine, requestOf(prompt, options, spec.vocabSize), model, options.json === true);
  await engine.close();
}

function promptOf({ prompt, ids }: GenerateOptions, { tokenizer }: LocalModel): Int32Array {
  if ((prompt === undefined) === (ids === undefined)) throw new UsageError('give either --prompt or --ids');
  if (ids !== undefined) return Int32Array.from(ids);
  const encoded = tokenizer.encode(prompt ?? '', { special: true, bos: true });
  if (encoded.length > 0) return encoded;
  throw new UsageError('--prompt: an empty prompt gives this model nothing to start from; give some text');
}

function requestOf(prompt: Int32Array, options: GenerateOptions, vocabSize: number): EngineRequest {
  return {
    id: 'generate',
    prompt,
    choices: 1,
    parameters: parametersOf(options, vocabSize),
    priority: 1,
    tenant: '',
    enqueuedMs: Date.now(),
  };
}

function parametersOf(options: GenerateOptions, vocabSize: number): SamplingParameters {
  const { temperature, seed, maxTokens, ignoreEos = false } = options;
  const freshSeed = seedFrom(randomBytes(8).readBigUInt64LE());
  const result = validateSampling({ temperature, seed, maxTokens, ignoreEos }, { vocabSize, freshSeed });
  if (result.ok) return result.parameters;
  throw new UsageError(`${result.parameter} ${result.problem}`);
}

/** Streams the text to a terminal or collects it for JSON. */
async function generate(
  engine: LocalEngine,
  request: EngineRequest,
  { tokenizer }: LocalModel,
  json: boolean,
): Promise<void> {
  const detokenizer = new Detokenizer(tokenizer, { continuation: true });
  const ids: number[] = [];
  let text = '';
  let finish: FinishEvent | undefined;
  const show = (piece: string) => {
    text += piece;
    if (!json) process.stdout.write(piece);
  };
  const started = performance.now();
  let firstToken = started;
  for await (const event of engine.submit(request)) {
    if (event.kind === 'finish') {
      finish = event;
      continue;
    }
    if (ids.length === 0) firstToken = performance.now();
    ids.push(event.token);
    show(detokenizer.push(event.token));
  }
  show(detokenizer.flush());
  const ended = performance.now();
  if (finish?.error !== undefined) throw new UsageError(finish.error.message);
  if (json) {
    process.stdout.write(`${JSON.stringify({ ids, text, finish_reason: finish?.reason })}\n`);
    return;
  }
  const perSecond = (tokens: number, ms: number) => (ms > 0 ? ((tokens * 1000) / ms).toFixed(1) : '-');
  process.stdout.write('\n');
  process.stderr.write(
    `prompt ${request.prompt.length} tokens, ${perSecond(request.prompt.length, firstToken - started)} tokens/s; ` +
      `generated ${ids.length} tokens, ${perSecond(ids.length - 1, ended - firstToken)} tokens/s; ` +
      `ended by ${finish?.reason}\n`,
  );
}
