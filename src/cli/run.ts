// `chairlift run MODEL [PROMPT]`: a chat with a model, or one answer to a question from the arguments or a pipe. The model is
// pulled where it is not here; a running server that has it answers, else it is loaded into this process.

import { text as readAll } from 'node:stream/consumers';
import type { Command } from 'commander';
import { visible } from '../text/visible.ts';
import { type ChatAnswers, serverAnswers } from './chat-answers.ts';
import {
  addChatOptions,
  answersHere,
  type ChatOptions,
  converse,
  samplingOf,
  serverOf,
  structureOf,
} from './chat-options.ts';
import { withImages } from './image-arguments.ts';
import { interruptible, obtainModel } from './obtain-model.ts';
import { probeServer } from './server-probe.ts';
import { UsageError } from './usage-error.ts';

interface RunOptions extends ChatOptions {
  readonly prompt?: string;
  readonly image?: readonly string[];
}

/** Exit status of a command ended by Ctrl-C. */
const INTERRUPTED = 130;

export function addRun(program: Command): void {
  const command = program
    .command('run')
    .description('chat with a model, or ask it one question; it is pulled where it is not here')
    .argument(
      '[model]',
      'a path, a name that list shows, hf:owner/repo:Q4_K_M, or a short name such as llama3.2:1b',
    )
    .argument(
      '[prompt...]',
      'one question: its answer alone is printed; what comes from a pipe goes before it',
    )
    .option('-m, --model <model>', 'the model, where it is not the first argument')
    .option('-p, --prompt <text>', 'the question')
    .option(
      '--image <file>',
      'an image that the question is about, for a model that reads them; repeatable',
      // As many as may follow would take the question for one.
      (file: string, before: readonly string[] = []) => [...before, file],
    );
  addChatOptions(command).action(run);
}

async function run(first: string | undefined, rest: readonly string[], options: RunOptions): Promise<void> {
  const model = options.model ?? first;
  if (model === undefined)
    throw new UsageError(
      "name a model, as in 'chairlift run llama3.2:1b'; 'chairlift list' shows those that are here",
    );
  if (options.image !== undefined) withImages('', options.image);
  const words = options.model === undefined || first === undefined ? rest : [first, ...rest];
  const question = await questionOf(words, options.prompt);
  const answers = await answersFrom(model, options);
  if (answers === undefined) return;
  if (question === undefined && options.image !== undefined) {
    throw new UsageError('--image: give the question about it, too; in a chat, write its path');
  }
  if (question === undefined) await converse(answers, options);
  else await answerOnce(answers, question, options);
}

/** Undefined where a person is to be asked. */
async function questionOf(words: readonly string[], prompt: string | undefined): Promise<string | undefined> {
  const piped = process.stdin.isTTY === true ? '' : (await readAll(process.stdin)).trim();
  const parts = [piped, prompt ?? '', words.join(' ')].filter((part) => part !== '');
  if (parts.length > 0) return parts.join('\n\n');
  if (process.stdin.isTTY === true) return undefined;
  throw new UsageError('the input is empty; give a question as an argument or through the pipe');
}

/** Undefined where a pull was interrupted. */
async function answersFrom(model: string, options: RunOptions): Promise<ChatAnswers | undefined> {
  const server = serverOf(options);
  const probe = await probeServer(server, model);
  if (options.url !== undefined && probe.state === 'absent') {
    throw new UsageError(`no server answers at ${server.url}`);
  }
  const isServed = probe.state === 'there' && probe.model !== undefined;
  if (isServed || options.url !== undefined) {
    const answers = serverAnswers(server, model, samplingOf(options), structureOf(options));
    return { ...answers, name: `${model} at ${server.url}` };
  }
  const path = await interruptible((signal) => obtainModel(model, options, signal)).catch((error) => {
    if (probe.state === 'refuses') process.stderr.write(`the server at ${server.url} asks for a --key\n`);
    throw error;
  });
  if (path === undefined) return undefined;
  if (probe.state === 'refuses') {
    process.stderr.write(`the server at ${server.url} asks for a --key; ${model} is loaded here instead\n`);
  }
  return answersHere(path, model, options);
}

const DIM = '\x1b[2m';
const NOT_DIM = '\x1b[22m';

/** Reasoning is no part of the answer: a person sees it before, dimmed, others never. */
async function answerOnce(
  answers: ChatAnswers,
  question: string,
  { system, image = [] }: RunOptions,
): Promise<void> {
  const stop = new AbortController();
  const onInterrupt = () => stop.abort();
  process.once('SIGINT', onInterrupt);
  const told = system === undefined ? [] : [{ role: 'system', content: system } as const];
  const isPerson = process.stdout.isTTY === true && process.stderr.isTTY === true;
  let thinks = false;
  let last = '';
  try {
    for await (const event of answers.answer(
      [...told, { role: 'user', content: withImages(question, image) }],
      stop.signal,
    )) {
      if (event.kind === 'reasoning' && isPerson) {
        process.stderr.write(`${DIM}${visible(event.text)}${NOT_DIM}`);
        thinks = true;
      }
      if (event.kind !== 'text') continue;
      if (thinks) process.stderr.write('\n\n');
      thinks = false;
      last = event.text;
      // Control characters are removed for a terminal only.
      process.stdout.write(process.stdout.isTTY ? visible(last) : last);
    }
  } finally {
    if (last !== '' && !last.endsWith('\n')) process.stdout.write('\n');
    process.off('SIGINT', onInterrupt);
    await answers.close();
  }
  if (stop.signal.aborted) process.exitCode = INTERRUPTED;
}
