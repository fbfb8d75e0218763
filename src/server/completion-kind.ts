// What chat and text completions do differently: their bodies, their prompts, their shapes on the wire.

import type { z } from 'zod';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import { chatPrompt, checkText } from './chat-prompt.ts';
import { chatShape } from './chat-shape.ts';
import type { ServerContext } from './context.ts';
import { badRequest } from './errors.ts';
import { type ChatBody, chatLogprobs, chatMaxTokens, chatRules } from './schemas/chat.ts';
import type { BodyRules } from './schemas/parse.ts';
import { samplingOf } from './schemas/sampling.ts';
import { DEFAULT_MAX_TOKENS, type TextBody, textRules } from './schemas/text.ts';
import { textShape } from './text-shape.ts';

export interface Prompt {
  readonly ids: Int32Array;
  /** Shown before the answer. */
  readonly echo?: string;
  /** As the template rendered it or the client sent it, where it was text. */
  readonly text?: string;
}

export interface CompletionKind<Body> {
  readonly idMark: string;
  readonly promptParam: 'messages' | 'prompt';
  /** Whether the answer goes on with the prompt's text, so that a space before its first word belongs to it. */
  readonly continuation: boolean;
  readonly rules: BodyRules<z.ZodObject & z.ZodType<Body>>;
  sampling(body: Body, vocabSize: number): SamplingParameters;
  prompts(body: Body, model: ServedModel, context: ServerContext): Promise<readonly Prompt[]>;
  shape(options: ShapeOptions): AnswerShape;
}

export const chatKind: CompletionKind<ChatBody> = {
  idMark: 'chatcmpl-',
  promptParam: 'messages',
  continuation: false,
  rules: chatRules,
  sampling(body, vocabSize) {
    const { name, value } = chatMaxTokens(body);
    const names = { logprobs: 'top_logprobs', maxTokens: name };
    return samplingOf(body, { logprobs: chatLogprobs(body), maxTokens: value, names }, vocabSize);
  },
  async prompts({ messages, chat_template_kwargs: variables }, model, { encoders, settings }) {
    const text = chatPrompt(model, messages, { addGenerationPrompt: true, variables }, settings);
    // Templates write the tokens that a text begins with themselves.
    return [{ ids: await encoders.encode(model, text, { special: true }), text }];
  },
  shape: chatShape,
};

export const textKind: CompletionKind<TextBody> = {
  idMark: 'cmpl-',
  promptParam: 'prompt',
  continuation: true,
  rules: textRules,
  sampling(body, vocabSize) {
    if (body.echo && body.logprobs !== undefined) {
      throw badRequest('echo', 'is not possible together with logprobs: those of a prompt are not computed');
    }
    const { logprobs, max_tokens: maxTokens = Math.max(DEFAULT_MAX_TOKENS, body.min_tokens ?? 0) } = body;
    return samplingOf(body, { logprobs, maxTokens }, vocabSize);
  },
  async prompts({ prompt, echo }, model, { encoders, settings }) {
    const several = splitPrompt(prompt);
    if (several.length > settings.maxPrompts) {
      throw badRequest(
        'prompt',
        `${several.length} prompts are too many; ${settings.maxPrompts} are possible`,
      );
    }
    return Promise.all(
      several.map(async (one): Promise<Prompt> => {
        if (typeof one !== 'string') {
          const ids = tokenIds(one, model);
          return { ids, ...(echo ? { echo: model.tokenizer.decode(ids, { special: true }) } : {}) };
        }
        checkText('prompt', one, settings.maxTextCharacters);
        const ids = await encoders.encode(model, one, { special: true, bos: true });
        return { ids, text: one, ...(echo ? { echo: one } : {}) };
      }),
    );
  },
  shape: textShape,
};

function splitPrompt(prompt: TextBody['prompt']): readonly (string | readonly number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return isTokenList(prompt) ? [prompt] : prompt;
}

function isTokenList(prompt: Exclude<TextBody['prompt'], string>): prompt is readonly number[] {
  return typeof prompt[0] === 'number';
}

/** Checked before they become 32 bits wide, which would hide a wrong one. */
function tokenIds(ids: readonly number[], { spec }: ServedModel): Int32Array {
  const stranger = ids.find((id) => id < 0 || id >= spec.vocabSize);
  if (stranger === undefined) return Int32Array.from(ids);
  throw badRequest('prompt', `${stranger} is no token id; the model's ids are 0 to ${spec.vocabSize - 1}`);
}
