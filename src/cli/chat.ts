// `chairlift chat`: talks with a running server, or with a model in this process.

import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { serverAnswers } from './chat-answers.ts';
import {
  addChatOptions,
  answersHere,
  type ChatOptions,
  converse,
  samplingOf,
  serverOf,
  structureOf,
} from './chat-options.ts';
import { modelsOnDisk } from './models-on-disk.ts';
import { interruptible, obtainModel } from './obtain-model.ts';
import { probeServer } from './server-probe.ts';
import { UsageError } from './usage-error.ts';

export function addChat(program: Command): void {
  const command = program
    .command('chat')
    .description('talk with a running server, or with a model in this process')
    .argument('[place]', 'the address of a server, or a model: as --url or --model')
    .option(
      '-m, --model <model>',
      'with --url a model of the server; else one to load here: a path or a name',
    );
  addChatOptions(command).action((place: string | undefined, options: ChatOptions) =>
    chat(withPlace(place, options)),
  );
}

function withPlace(place: string | undefined, options: ChatOptions): ChatOptions {
  if (place === undefined) return options;
  const name = /^https?:\/\//.test(place) ? 'url' : 'model';
  if (options[name] !== undefined)
    throw new UsageError(`'${place}' and --${name} say the same: give one of them`);
  return { ...options, [name]: place };
}

async function chat(options: ChatOptions): Promise<void> {
  const { model, url } = options;
  if (model !== undefined && url === undefined) return chatHere(model, options);
  const server = serverOf(options);
  const probe = await probeServer(server, model);
  if (probe.state === 'absent') return withoutServer(server.url, options);
  if (probe.state === 'there' && probe.model === undefined) {
    throw new UsageError(
      model === undefined
        ? `the server at ${server.url} has no model yet`
        : `the server at ${server.url} has no model '${model}'; 'chairlift ps --all' shows those it has`,
    );
  }
  if (probe.state === 'refuses' && probe.status === 401) {
    const problem =
      server.key === undefined ? 'asks for a key; give it with --key' : 'does not know this --key';
    throw new UsageError(`the server at ${server.url} ${problem}`);
  }
  const name = probe.state === 'there' ? probe.model : model;
  const answers = serverAnswers(server, model, samplingOf(options), structureOf(options));
  await converse({ ...answers, name: `${name ?? 'the default model'} at ${server.url}` }, options);
}

async function chatHere(model: string, options: ChatOptions): Promise<void> {
  const path = await interruptible((signal) => obtainModel(model, options, signal));
  if (path !== undefined) await converse(await answersHere(path, model, options), options);
}

/** Asks a person whether to go on without a server; a script is told at once. */
async function withoutServer(url: string, options: ChatOptions): Promise<void> {
  const start = `no server answers at ${url}; start one with 'chairlift serve'`;
  const [model] = modelsOnDisk(options).filter(({ problem }) => problem === undefined);
  const isPerson = process.stdin.isTTY === true && process.stderr.isTTY === true;
  if (!isPerson || model === undefined || options.url !== undefined) {
    throw new UsageError(`${start}, give its --url, or load a model here with --model`);
  }
  process.stderr.write(`${start}\n`);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const word = await asking.question(`load ${model.name} in this process instead? [Y/n] `);
    if (/^n/i.test(word.trim())) return;
  } finally {
    asking.close();
  }
  await chatHere(model.path, options);
}
