import { type Command, Option } from 'commander';
import { type BackendName, BLOCK_TOKENS, backendNames } from '../compute/backend.ts';
import { AnswerGrammars } from '../generation/answer-grammars.ts';
import { contentOf } from '../generation/answer-parts.ts';
import { planAnswer } from '../generation/answer-plan.ts';
import { fitToContext } from '../generation/context-room.ts';
import { Generation } from '../generation/generation.ts';
import { type PromptInput, readPrompt } from '../generation/prompt.ts';
import { directEncoder } from '../generation/prompt-encoder.ts';
import { requirementsFor } from '../generation/response-format.ts';
import { flagNames, samplingSettings } from '../generation/sampling-settings.ts';
import { WholeAnswer } from '../generation/whole-answer.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { visible } from '../text/visible.ts';
import {
  addStructureOptions,
  asUsageError,
  parseCount,
  parseIds,
  parseInteger,
  parseTemperature,
  type StructureFlags,
  structureFrom,
} from './flags.ts';
import { adapterOf, loadHere } from './loaded-here.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { UsageError } from './usage-error.ts';

interface GenerateOptions extends StructureFlags {
  readonly model: string;
  readonly adapter?: string;
  readonly prompt?: string;
  readonly ids?: readonly number[];
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed?: number;
  readonly ignoreEos?: true;
  readonly backend?: BackendName;
  readonly json?: true;
}

const nobodyStops = new AbortController().signal;

export function addGenerate(program: Command): void {
  const command = program
    .command('generate')
    .description('continue a prompt')
    .requiredOption('-m, --model <path>', MODEL_MEANING, parseModel)
    .option('--adapter <path>', 'a LoRA adapter: a folder that PEFT or mlx-lm wrote, or a .gguf file')
    .option('-p, --prompt <text>', 'the text to continue; special tokens in it are parsed')
    .option('--ids <list>', 'the token ids to continue, separated by commas', parseIds);
  addStructureOptions(command)
    .option('-n, --max-tokens <n>', 'how many tokens at most', parseCount, 256)
    .option('--temperature <t>', '0 takes the likeliest token each time', parseTemperature, 0)
    .option('--seed <n>', 'the same seed gives the same text', parseInteger)
    .option('--ignore-eos', 'go on past the end of the text')
    .addOption(new Option('--backend <name>', 'what computes it').choices(backendNames))
    .option('--json', 'print JSON')
    .action(run);
}

async function run(options: GenerateOptions): Promise<void> {
  const local = openLocalModel(options.model, { adapters: adapterOf(options) });
  const { spec } = local;
  const input = inputOf(options);
  const names = { ...flagNames, prompt: input.kind === 'ids' ? '--ids' : '--prompt' };
  const { temperature, seed, maxTokens, ignoreEos = false } = options;
  const structure = structureFrom(options);
  const grammars = new AnswerGrammars();
  let model: ServedModel | undefined;
  try {
    const sampling = samplingSettings({ temperature, seed, maxTokens, ignoreEos }, local, names);
    const prompt = await readPrompt(
      input,
      { ...local, name: options.model, path: options.model },
      { encoder: directEncoder, signal: nobodyStops, parameter: names.prompt },
    );
    // What does not fit is refused before anything is loaded, and no more blocks are allocated than needed.
    const parameters = fitToContext(sampling, prompt.ids.length, spec.contextLength, names);
    const length = prompt.ids.length + (parameters.maxTokens ?? maxTokens);
    const blockCount = Math.ceil(length / BLOCK_TOKENS);
    model = await loadHere(options.model, local, { blockCount, backend: options.backend });
    const plan = await planAnswer(model, prompt, requirementsFor(structure, false), grammars, {});
    const generation = new Generation(
      { id: 'generate', model, prompts: [prompt], parameters: [parameters], plans: [plan], names },
      nobodyStops,
    );
    await generate(generation, options.json === true);
  } catch (error) {
    throw asUsageError(error);
  } finally {
    await Promise.all([grammars.close(), model?.engine.close()]);
  }
}

function inputOf({ prompt, ids }: GenerateOptions): PromptInput {
  if ((prompt === undefined) === (ids === undefined)) throw new UsageError('give either --prompt or --ids');
  return ids === undefined ? { kind: 'text', text: prompt ?? '' } : { kind: 'ids', ids };
}

async function generate(generation: Generation, json: boolean): Promise<void> {
  const whole = new WholeAnswer(1);
  const started = performance.now();
  let firstToken: number | undefined;
  for await (const event of generation.events()) {
    firstToken ??= performance.now();
    whole.add(event);
    if (!json && event.kind === 'piece') show(contentOf(event.parts));
  }
  const ended = performance.now();
  const [{ tokens, text, reason } = { tokens: [], text: '', reason: undefined }] = whole.choices;
  if (json) {
    process.stdout.write(`${JSON.stringify({ ids: tokens, text, finish_reason: reason })}\n`);
    return;
  }
  const perSecond = (count: number, ms: number) => (ms > 0 ? ((count * 1000) / ms).toFixed(1) : '-');
  const begun = firstToken ?? ended;
  const { promptTokens } = generation.usage;
  process.stdout.write('\n');
  process.stderr.write(
    `prompt ${promptTokens} tokens, ${perSecond(promptTokens, begun - started)} tokens/s; ` +
      `generated ${tokens.length} tokens, ${perSecond(tokens.length - 1, ended - begun)} tokens/s; ` +
      `ended by ${reason}\n`,
  );
}

/** Control characters are removed for a terminal only. */
function show(text: string): void {
  process.stdout.write(process.stdout.isTTY ? visible(text) : text);
}
