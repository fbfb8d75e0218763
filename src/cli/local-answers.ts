// Answers from a model in this very process. Its engine keeps the KV of the conversation, so that each answer
// computes only what is new.

import type { BackendName } from '../compute/backend.ts';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import { AnswerGrammars } from '../generation/answer-grammars.ts';
import type { GenerationPart } from '../generation/answer-parts.ts';
import { GenerationError } from '../generation/generation-error.ts';
import { prepare } from '../generation/prepare.ts';
import { directEncoder } from '../generation/prompt.ts';
import { type ResponseFormat, requirementsFor } from '../generation/response-format.ts';
import { flagNames, samplingSettings } from '../generation/sampling-settings.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { AnswerEvent, ChatAnswers, ChatMessage, ChatSampling } from './chat-answers.ts';
import { asUsageError } from './generation-refusal.ts';
import { loadHere } from './loaded-here.ts';
import { UsageError } from './usage-error.ts';

interface LocalAnswersOptions {
  readonly sampling: ChatSampling;
  /** Tokens of the whole conversation at most; never above the model's own limit. */
  readonly contextTokens: number;
  readonly backend: BackendName | undefined;
  /** What answers shall be. */
  readonly structure?: ResponseFormat | undefined;
}

/** What answers a chat, and how. */
interface Answering extends Pick<LocalAnswersOptions, 'sampling' | 'structure'> {
  readonly model: ServedModel;
  readonly grammars: AnswerGrammars;
}

const names = { ...flagNames, prompt: 'messages' };

export async function localAnswers(path: string, options: LocalAnswersOptions): Promise<ChatAnswers> {
  const local = openLocalModel(path, { contextLength: options.contextTokens });
  if (local.spec.headless === true) {
    local.close();
    throw new UsageError(`${path} embeds texts and cannot continue them`);
  }
  if (local.template === undefined) {
    local.close();
    throw new UsageError(`${path} has no chat template; 'chairlift generate' continues a plain text with it`);
  }
  const blockCount = Math.ceil(local.spec.contextLength / BLOCK_TOKENS);
  const model = await loadHere(path, local, { blockCount, backend: options.backend });
  const grammars = new AnswerGrammars();
  return {
    name: path,
    answer: (messages, signal) => answerOf({ model, grammars, ...options }, messages, signal),
    close: async () => void (await Promise.all([grammars.close(), model.engine.close()])),
  };
}

async function* answerOf(
  { model, grammars, sampling, structure }: Answering,
  messages: readonly ChatMessage[],
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent, void, void> {
  try {
    const generation = await prepare(
      {
        model,
        input: { kind: 'chat', messages },
        sampling: samplingSettings(sampling, model.spec.vocabSize, names),
        names,
        encoder: directEncoder,
        asks: { requirements: requirementsFor(structure, true), grammars },
      },
      signal,
    );
    for await (const event of generation.events()) {
      if (event.kind === 'piece') {
        yield* event.parts.flatMap(wordsOf);
        continue;
      }
      const { completionTokens: answerTokens, ...usage } = generation.usage;
      yield { kind: 'end', reason: event.reason, usage: { ...usage, answerTokens } };
    }
  } catch (error) {
    if (!signal.aborted) throw refusalOf(error);
  }
}

/** Nothing is called where no tools are given. */
function wordsOf(part: GenerationPart): AnswerEvent[] {
  if (part.kind === 'content') return [{ kind: 'text', text: part.text }];
  return part.kind === 'reasoning' ? [{ kind: 'reasoning', text: part.text }] : [];
}

function refusalOf(error: unknown): unknown {
  if (error instanceof GenerationError && error.code === 'context_length_exceeded') {
    return new UsageError(`${error.message}; /clear starts anew`);
  }
  return asUsageError(error);
}
