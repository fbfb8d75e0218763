import { existsSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { type BackendName, backendNames } from '../compute/backend.ts';
import { referenceIn } from '../pool/model-reference.ts';
import { type ChatAnswers, type ChatSampling, localAnswers, serverAnswers } from './chat-answers.ts';
import { ChatSession } from './chat-session.ts';
import {
  addStructureOptions,
  parseCount,
  parseInteger,
  parseTemperature,
  type StructureFlags,
  structureFrom,
} from './flags.ts';
import { addFolderOptions, type FolderFlags, modelPath, modelsOnDisk } from './models-on-disk.ts';
import { DEFAULT_URL } from './server-client.ts';
import { UsageError } from './usage-error.ts';

interface ChatOptions extends ChatSampling, FolderFlags, StructureFlags {
  readonly model?: string;
  readonly url?: string;
  readonly key?: string;
  readonly system?: string;
  readonly context: number;
  readonly backend?: BackendName;
}

export function addChat(program: Command): void {
  const command = program
    .command('chat')
    .description('talk with a running server, or with a model in this process')
    .option('--url <url>', `where the server is; ${DEFAULT_URL} where unset`)
    .option('--key <key>', 'API key, where the server asks for one')
    .option(
      '--model <model>',
      'with --url a model of the server; else a path, or a name that `list` shows, to load here',
    )
    .option('--system <text>', 'what the model is told before the conversation')
    .option('--temperature <t>', '0 takes the likeliest token each time', parseTemperature)
    .option('--max-tokens <n>', 'tokens of an answer at most', parseCount)
    .option('--seed <n>', 'the same seed gives the same answers', parseInteger)
    .option('--context <n>', 'tokens of a conversation with a model loaded here', parseCount, 8192)
    .addOption(new Option('--backend <name>', 'what computes a model loaded here').choices(backendNames));
  addFolderOptions(addStructureOptions(command)).action(chat);
}

async function chat(options: ChatOptions): Promise<void> {
  const answers = await answersFor(options);
  const session = new ChatSession({
    answers,
    input: process.stdin,
    output: process.stdout,
    notices: process.stderr,
    system: options.system,
    nowMs: () => performance.now(),
  });
  const onInterrupt = () => session.interrupt();
  process.on('SIGINT', onInterrupt);
  try {
    if (!(await session.run())) process.exitCode = 1;
  } finally {
    process.off('SIGINT', onInterrupt);
    await answers.close();
  }
}

function answersFor(options: ChatOptions): ChatAnswers | Promise<ChatAnswers> {
  const { url, key, model, temperature, maxTokens, seed, context, backend } = options;
  const sampling = {
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(seed === undefined ? {} : { seed }),
  };
  const structure = structureFrom(options);
  if (model !== undefined && url === undefined) {
    return localAnswers(pathOf(model, options), { sampling, contextTokens: context, backend, structure });
  }
  const server = { url: url ?? DEFAULT_URL, ...(key === undefined ? {} : { key }) };
  return serverAnswers(server, model, sampling, structure);
}

function pathOf(model: string, flags: FolderFlags): string {
  if (existsSync(model)) return model;
  const named = modelsOnDisk(flags).find(({ name }) => name === model);
  if (named?.problem !== undefined) throw new UsageError(named.problem);
  if (named !== undefined) return named.path;
  if (referenceIn(model) !== undefined) return modelPath(model, flags);
  throw new UsageError(
    `there is no file and no model '${model}'; 'chairlift list' shows the models here, and with --url the server's are meant`,
  );
}
