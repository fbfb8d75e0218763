// Prepares one answer to one prompt for the library and the commands; the server handles many prompts and checks
// limits between steps.

import { randomUUID } from 'node:crypto';
import type { ServedModel } from '../pool/served-model.ts';
import { orAbort } from '../runtime/timers.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { AnswerGrammars } from './answer-grammars.ts';
import { type AnswerRequirements, planAnswer } from './answer-plan.ts';
import { fitToContext, roomOf, withImages } from './context-room.ts';
import { Generation } from './generation.ts';
import type { ParameterNames } from './generation-error.ts';
import type { GenerationRequest } from './generation-request.ts';
import type { ImageReading } from './pictured-prompt.ts';
import { expectedIds, type PromptInput, readPrompt } from './prompt.ts';
import type { PromptEncoder } from './prompt-encoder.ts';

export interface Question extends Pick<GenerationRequest, 'stops' | 'special' | 'priority'> {
  readonly model: ServedModel;
  readonly input: PromptInput;
  readonly sampling: SamplingParameters;
  readonly names: ParameterNames;
  readonly encoder: PromptEncoder;
  readonly images?: ImageReading | undefined;
  readonly prediction?: string | undefined;
  /** Default: plain text. */
  readonly asks?:
    | { readonly requirements: AnswerRequirements; readonly grammars: AnswerGrammars }
    | undefined;
}

/** The engine starts when its events are read. */
export async function prepare(question: Question, signal: AbortSignal): Promise<Generation> {
  const { model, input, sampling, names, encoder, images, asks, prediction, ...rest } = question;
  const prompt = await readPrompt(input, model, { encoder, images, signal, parameter: names.prompt });
  const parameters = fitToContext(sampling, prompt.ids.length, roomOf(model), names);
  const plan =
    asks && (await orAbort(planAnswer(model, prompt, asks.requirements, asks.grammars, { signal }), signal));
  const expected = await expectedIds(prediction, model, { encoder, signal });
  return new Generation(
    {
      id: randomUUID(),
      model,
      prompts: [await withImages(prompt, signal)],
      parameters: [parameters],
      plans: plan && [plan],
      expected,
      names,
      ...rest,
    },
    signal,
  );
}
