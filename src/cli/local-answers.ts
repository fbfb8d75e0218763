// Answers from a model in this very process. Its engine keeps the K/V of the conversation, so that each answer
// computes only what is new.

import { randomBytes } from 'node:crypto';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import { type BackendName, chooseBackend } from '../compute/choose-backend.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import type { EngineRequest } from '../engine/request.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import { validateSampling } from '../sampling/parameters.ts';
import { seedFrom } from '../sampling/random.ts';
import { type ChatTemplate, ChatTemplateError } from '../text/chat-template.ts';
import { Detokenizer } from '../text/detokenizer.ts';
import type { AnswerEvent, ChatAnswers, ChatMessage, ChatSampling } from './chat-answers.ts';
import { progressBar } from './progress-bar.ts';
import { UsageError } from './usage-error.ts';

export interface LocalAnswersOptions {
  readonly sampling: ChatSampling;
  /** Tokens of the whole conversation at most; never above the model's own limit. */
  readonly contextTokens: number;
  readonly backend: BackendName | undefined;
}

export async function localAnswers(path: string, options: LocalAnswersOptions): Promise<ChatAnswers> {
  const model = openLocalModel(path);
  const { template } = model;
  if (template === undefined) {
    model.close();
    throw new UsageError(`${path} has no chat template; 'chairlift generate' continues a plain text with it`);
  }
  const contextTokens = Math.min(options.contextTokens, model.spec.contextLength);
  const engine = await startEngine(model, contextTokens, options.backend);
  let answers = 0;
  return {
    name: path,
    answer(messages, signal) {
      const prompt = promptOf(messages, template, model);
      const request = requestOf(`chat-${answers++}`, prompt, model, options.sampling, contextTokens);
      return answerOf(engine, request, model, signal);
    },
    close: () => engine.close(),
  };
}

async function startEngine(
  { spec, files, tokenizer, close }: LocalModel,
  contextTokens: number,
  backendName: BackendName | undefined,
): Promise<LocalEngine> {
  const choice = chooseBackend(backendName);
  if (choice.notice) process.stderr.write(`${choice.notice}\n`);
  const blockCount = Math.ceil(contextTokens / BLOCK_TOKENS);
  const bar = progressBar('loading');
  try {
    const backend = await choice.create(spec, files.weights, { blockCount, onProgress: bar.update });
    return new LocalEngine(backend, {
      blockCount,
      budget: { kind: 'fixed', maxStepTokens: 512 },
      vocabSize: spec.vocabSize,
      contextLength: contextTokens,
      endIds: [...tokenizer.eosIds],
    });
  } finally {
    bar.end();
    close();
  }
}

function promptOf(
  messages: readonly ChatMessage[],
  template: ChatTemplate,
  { tokenizer }: LocalModel,
): Int32Array {
  try {
    const text = template.render({
      messages: messages.map((one) => ({ ...one })),
      addGenerationPrompt: true,
    });
    return tokenizer.encode(text, { special: true });
  } catch (error) {
    if (error instanceof ChatTemplateError) throw new UsageError(error.message);
    throw error;
  }
}

function requestOf(
  id: string,
  prompt: Int32Array,
  { spec }: LocalModel,
  sampling: ChatSampling,
  contextTokens: number,
): EngineRequest {
  const room = contextTokens - prompt.length;
  if (room < 1) {
    throw new UsageError(
      `the conversation has ${prompt.length} tokens, and ${contextTokens} are possible; /clear starts anew`,
    );
  }
  const maxTokens = Math.min(room, sampling.maxTokens ?? room);
  const freshSeed = seedFrom(randomBytes(8).readBigUInt64LE());
  const checked = validateSampling({ ...sampling, maxTokens }, { vocabSize: spec.vocabSize, freshSeed });
  if (!checked.ok) throw new UsageError(`${checked.parameter} ${checked.problem}`);
  const { parameters } = checked;
  return { id, prompt, choices: 1, parameters, priority: 1, tenant: '', enqueuedMs: Date.now() };
}

async function* answerOf(
  engine: LocalEngine,
  request: EngineRequest,
  { tokenizer }: LocalModel,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent, void, void> {
  const detokenizer = new Detokenizer(tokenizer);
  const cancel = () => engine.cancel(request.id);
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for await (const event of engine.submit(request)) {
      if (event.kind === 'token') {
        yield { kind: 'text', text: detokenizer.push(event.token) };
        continue;
      }
      if (event.error !== undefined) throw new UsageError(event.error.message);
      yield { kind: 'text', text: detokenizer.flush() };
      const { promptTokens, cachedTokens, generatedTokens: answerTokens, reason } = event;
      if (reason !== 'cancelled')
        yield { kind: 'end', reason, usage: { promptTokens, cachedTokens, answerTokens } };
    }
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
