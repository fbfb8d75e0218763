// What chat and text completions do differently: their bodies, their prompts, their shapes on the wire.

import type { z } from 'zod';
import { type ParameterNames, wireNames } from '../generation/parameter-names.ts';
import type { PromptInput } from '../generation/prompt.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import { chatShape } from './chat-shape.ts';
import { badRequest } from './errors.ts';
import { infillShape } from './infill-shape.ts';
import { type ChatBody, chatLogprobs, chatMaxTokens, chatRules, templateOptions } from './schemas/chat.ts';
import { type InfillBody, infillMaxTokens, infillRules } from './schemas/infill.ts';
import type { BodyRules } from './schemas/parse.ts';
import { samplingOf } from './schemas/sampling.ts';
import { DEFAULT_MAX_TOKENS, type TextBody, textRules } from './schemas/text.ts';
import type { ServerSettings } from './settings.ts';
import { textShape } from './text-shape.ts';

export interface CompletionKind<Body> {
  readonly idMark: string;
  readonly rules: BodyRules<z.ZodObject & z.ZodType<Body>>;
  names(body: Body): ParameterNames;
  /** Undefined where an answer may be as long as the context allows. */
  maxTokens(body: Body): number | undefined;
  sampling(body: Body, vocabSize: number): SamplingParameters;
  prompts(body: Body, settings: ServerSettings): readonly PromptInput[];
  /** Whether each answer begins with its prompt. */
  echoes(body: Body): boolean;
  shape(options: ShapeOptions): AnswerShape;
}

export const chatKind: CompletionKind<ChatBody> = {
  idMark: 'chatcmpl-',
  rules: chatRules,
  names: (body) => ({
    ...wireNames,
    prompt: 'messages',
    logprobs: 'top_logprobs',
    maxTokens: chatMaxTokens(body).name,
  }),
  maxTokens: (body) => chatMaxTokens(body).value,
  sampling(body, vocabSize) {
    const extras = { logprobs: chatLogprobs(body), maxTokens: this.maxTokens(body) };
    return samplingOf(body, extras, vocabSize, this.names(body));
  },
  prompts: (body) => [{ kind: 'chat', messages: body.messages, ...templateOptions(body) }],
  echoes: () => false,
  shape: chatShape,
};

export const textKind: CompletionKind<TextBody> = {
  idMark: 'cmpl-',
  rules: textRules,
  names: () => ({ ...wireNames, prompt: 'prompt' }),
  maxTokens: ({ max_tokens, min_tokens = 0 }) => max_tokens ?? Math.max(DEFAULT_MAX_TOKENS, min_tokens),
  sampling(body, vocabSize) {
    if (body.echo && body.logprobs !== undefined) {
      throw badRequest('echo', 'is not possible together with logprobs: those of a prompt are not computed');
    }
    const maxTokens = this.maxTokens(body);
    // For those who want their prompt back, or its length.
    const none = maxTokens === 0 && (body.min_tokens ?? 0) === 0;
    const extras = { logprobs: body.logprobs, maxTokens: none ? undefined : maxTokens };
    const parameters = samplingOf(body, extras, vocabSize, this.names(body));
    return none ? { ...parameters, maxTokens } : parameters;
  },
  prompts({ prompt, suffix = '' }, { maxPrompts }) {
    const several = splitPrompt(prompt);
    if (several.length > maxPrompts) {
      throw badRequest('prompt', `${several.length} prompts are too many; ${maxPrompts} are possible`);
    }
    return several.map((one): PromptInput => {
      const isText = typeof one === 'string';
      if (suffix === '') return isText ? { kind: 'text', text: one } : { kind: 'ids', ids: one };
      if (isText) return { kind: 'gap', prefix: one, suffix, suffixName: 'suffix' };
      throw badRequest('suffix', 'needs a prompt that is a text');
    });
  },
  echoes: ({ echo }) => echo === true,
  shape: textShape,
};

export const infillKind: CompletionKind<InfillBody> = {
  idMark: 'infill-',
  rules: infillRules,
  names: () => ({ ...wireNames, prompt: 'input_prefix' }),
  maxTokens: infillMaxTokens,
  sampling(body, vocabSize) {
    const extras = { logprobs: undefined, maxTokens: this.maxTokens(body) };
    return samplingOf(body, extras, vocabSize, this.names(body));
  },
  prompts: ({ input_prefix: prefix = '', input_suffix: suffix = '', input_extra: files, prompt: begun }) => [
    { kind: 'gap', prefix, suffix, files, begun, suffixName: 'input_suffix' },
  ],
  echoes: () => false,
  shape: infillShape,
};

function splitPrompt(prompt: TextBody['prompt']): readonly (string | readonly number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return isTokenList(prompt) ? [prompt] : prompt;
}

function isTokenList(prompt: Exclude<TextBody['prompt'], string>): prompt is readonly number[] {
  return typeof prompt[0] === 'number';
}
