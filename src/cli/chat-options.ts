// What `chat` and `run` share: their options, and a conversation on this process's terminal.

import { type Command, Option } from 'commander';
import { usesColour } from '../app/log-text.ts';
import { type BackendName, backendNames } from '../compute/backend.ts';
import { processInputs } from '../config.ts';
import type { ResponseFormat } from '../generation/response-format.ts';
import { type ChatAnswers, type ChatSampling, localAnswers } from './chat-answers.ts';
import { chatHistoryFile, openChatHistory } from './chat-history.ts';
import { ChatSession } from './chat-session.ts';
import {
  addAlias,
  addStructureOptions,
  parseCount,
  parseInteger,
  parseTemperature,
  type StructureFlags,
  structureFrom,
} from './flags.ts';
import { addFolderOptions } from './models-on-disk.ts';
import { addHubOptions, type PullFlags } from './obtain-model.ts';
import { type ServerFlags, URL_MEANING, usualUrl } from './server-client.ts';

export interface ChatOptions extends ChatSampling, PullFlags, StructureFlags {
  readonly model?: string;
  readonly url?: string;
  readonly key?: string;
  readonly system?: string;
  readonly context: number;
  readonly backend?: BackendName;
  /** False with --no-history. */
  readonly history: boolean;
}

export function addChatOptions(command: Command): Command {
  command
    .option('--url <url>', URL_MEANING)
    .option('--key <key>', 'API key, where the server asks for one')
    .option('--system <text>', 'what the model is told before the conversation')
    .option('--temperature <t>', '0 takes the likeliest token each time', parseTemperature)
    .option('-n, --max-tokens <n>', 'tokens of an answer at most', parseCount)
    .option('--seed <n>', 'the same seed gives the same answers', parseInteger)
    .option('-c, --context <n>', 'tokens of a conversation with a model loaded here', parseCount, 8192)
    .addOption(new Option('--backend <name>', 'what computes a model loaded here').choices(backendNames))
    .option('--no-history', 'keep nothing of what is typed; ~/.chairlift/chat-history has it otherwise');
  addAlias(command, '--hf-repo <model>', '--model');
  addAlias(command, '--ctx-size <n>', '--context');
  addAlias(command, '--n-predict <n>', '--max-tokens');
  addAlias(command, '--temp <t>', '--temperature');
  return addFolderOptions(addHubOptions(addStructureOptions(command)));
}

export function samplingOf({ temperature, maxTokens, seed }: ChatOptions): ChatSampling {
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(seed === undefined ? {} : { seed }),
  };
}

export function structureOf(options: ChatOptions): ResponseFormat | undefined {
  return structureFrom(options);
}

export function serverOf({ url, key }: ChatOptions): ServerFlags {
  return { url: url ?? usualUrl(), ...(key === undefined ? {} : { key }) };
}

/** `name` is what the user called it. */
export async function answersHere(path: string, name: string, options: ChatOptions): Promise<ChatAnswers> {
  const { context, backend } = options;
  const answers = await localAnswers(path, {
    sampling: samplingOf(options),
    contextTokens: context,
    backend,
    structure: structureOf(options),
  });
  return { ...answers, name };
}

/** Until the person leaves, or the input ends. */
export async function converse(answers: ChatAnswers, { system, history }: ChatOptions): Promise<void> {
  const { environment, home } = processInputs({});
  const session = new ChatSession({
    answers,
    input: process.stdin,
    output: process.stdout,
    notices: process.stderr,
    system,
    nowMs: () => performance.now(),
    colour: process.stdout.isTTY === true && usesColour(environment),
    history: history ? openChatHistory(chatHistoryFile(home)) : undefined,
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
