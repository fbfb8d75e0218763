// Answers of /completion and /infill on the wire: one object for each answer; in a stream one for each piece, and at the end the
// whole without its text.

import { contentOf, type TokenDetail } from '../../generation/answer-parts.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import { roomOf } from '../../generation/context-room.ts';
import type { WholeChoice } from '../../generation/whole-answer.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { type AnswerShape, finiteLogprob, type ShapeOptions, tokenString } from '../jobs/answer-shape.ts';
import { timingsOf } from '../jobs/timings.ts';
import { stopsOf } from '../openai/schemas/sampling.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { askedSlot } from '../request/slot-number.ts';
import { generationSettings } from './generation-settings.ts';
import { onlyFields } from './response-fields.ts';
import type { CommonGiven } from './schema.ts';

/** The request names none; see /slots. */
const NO_SLOT = -1;

export function completionShape(
  options: ShapeOptions,
  given: Omit<CommonGiven, 'logit_bias'>,
  { context }: RequestContext,
): AnswerShape {
  const id_slot = askedSlot(context, given) ?? NO_SLOT;
  const { model, prompts, parameters, choices: answers } = options;
  if (model === undefined) throw new Error('this protocol shows tokens, which no upstream reports');
  const promptOf = (index: number) => Math.floor(index / answers);
  const promptTokens = (index: number) => prompts[promptOf(index)]?.ids.length ?? 0;
  const counts = prompts.flatMap(() => Array.from({ length: answers }, () => 0));
  const held: number[][] = counts.map(() => []);
  let texts: readonly string[] = [];
  let settled: readonly WholeChoice[] = [];

  const timings = (index: number, predicted: number, usage?: TokenUsage) =>
    timingsOf({
      promptTokens: promptTokens(index),
      cachedTokens: options.cachedTokens(promptOf(index)),
      predicted,
      times: options.times(),
      draftTokens: usage?.draftTokens,
    });
  const probabilities = (details: readonly TokenDetail[]) =>
    options.logprobs && details.length > 0
      ? { completion_probabilities: details.map((detail) => probabilityOf(model, detail)) }
      : {};
  const settings = (index: number) => {
    const its = parameters[promptOf(index)];
    if (its === undefined) return {};
    return generationSettings({
      parameters: its,
      model,
      stops: stopsOf(given),
      stream: given.stream === true,
      limit: given.n_predict ?? given.max_tokens,
      grammar: given.grammar ?? '',
      timingsPerToken: given.timings_per_token === true,
    });
  };
  const ended = (choice: WholeChoice, text: string, tokens: readonly number[], usage: TokenUsage) => {
    const { index, reason, stop } = choice;
    const predicted = choice.tokens.length;
    const isFull = promptTokens(index) + predicted >= roomOf(model);
    return {
      index,
      content: text,
      tokens,
      id_slot: options.slot(index) ?? id_slot,
      stop: true,
      model: options.base.model,
      tokens_predicted: predicted,
      tokens_evaluated: promptTokens(index),
      generation_settings: settings(index),
      prompt: texts[promptOf(index)] ?? '',
      has_new_line: choice.text.includes('\n'),
      truncated: reason === 'length' && isFull && predicted !== given.n_predict,
      stop_type: reason === 'length' ? 'limit' : stop === undefined ? 'eos' : 'word',
      stopping_word: stop ?? '',
      tokens_cached: options.cachedTokens(promptOf(index)),
      timings: timings(index, predicted, usage),
    };
  };

  return {
    opening: () => [],
    piece: (index, { parts, details, token }) => {
      const tokens = held[index] as number[];
      if (token !== undefined) {
        tokens.push(token);
        counts[index] = (counts[index] as number) + 1;
      }
      const content = contentOf(parts);
      if (content === '' && details.length === 0) return [];
      const data = {
        index,
        content,
        tokens: tokens.splice(0),
        stop: false,
        id_slot,
        tokens_predicted: counts[index],
        tokens_evaluated: promptTokens(index),
        ...(given.timings_per_token ? { timings: timings(index, counts[index] as number) } : {}),
        ...probabilities(details),
      };
      return [{ data }];
    },
    // What was cached is known only when the engine has ended the answer: `closing` says how each ended.
    finish: () => [],
    async settled(choices) {
      settled = choices;
      texts = await Promise.all(prompts.map((_, at) => options.promptText(at)));
    },
    closing: (usage) =>
      settled.map((choice) => ({ data: ended(choice, '', held[choice.index] as number[], usage) })),
    failure: (error) => [{ data: error.body() }],
    whole(choices, usage) {
      const bodies = choices.map((choice) => {
        const tokens = given.return_tokens === true ? choice.tokens : [];
        const body = { ...ended(choice, choice.text, tokens, usage), ...probabilities(choice.details) };
        return onlyFields(body, given.response_fields);
      });
      return bodies.length === 1 ? (bodies[0] as object) : bodies;
    },
  };
}

function probabilityOf(model: ServedModel, { token, logprob, top }: TokenDetail): object {
  const named = (id: number, value: number) => ({
    id,
    token: tokenString(model, id),
    bytes: [...model.tokenizer.tokenBytes(id)],
    logprob: finiteLogprob(value),
  });
  return { ...named(token, logprob), top_logprobs: top.map((one) => named(one.token, one.logprob)) };
}
