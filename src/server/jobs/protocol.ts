// What the protocols do differently: their bodies, their prompts, their shapes on the wire. Whatever a body looks like, it
// is read as one of OpenAI's two: a chat, or a text to continue.

import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { AnswerWish } from '../../generation/answer-plan.ts';
import { type ParameterNames, wireNames } from '../../generation/parameter-names.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import { wishFor } from '../../generation/structure.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import type { BodyRules } from '../http/parse-body.ts';
import { doneEvents, type Framing, namedEvents } from '../http/sse.ts';
import { chatShape } from '../openai/chat-shape.ts';
import { infillShape } from '../openai/infill-shape.ts';
import {
  type ChatBody,
  chatLogprobs,
  chatMaxTokens,
  chatRules,
  predictedText,
  templateOptions,
} from '../openai/schemas/chat.ts';
import { type InfillBody, infillMaxTokens, infillRules } from '../openai/schemas/infill.ts';
import { type SamplingBody, samplingOf } from '../openai/schemas/sampling.ts';
import { structureOf } from '../openai/schemas/structured-output.ts';
import { DEFAULT_MAX_TOKENS, splitPrompt, type TextBody, textRules } from '../openai/schemas/text.ts';
import { toolOrder } from '../openai/schemas/tools.ts';
import { textShape } from '../openai/text-shape.ts';
import type { ServerSettings } from '../settings.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';

/** How the body of a request becomes prompts, and tokens an answer. */
export interface CompletionKind<Body> {
  names(body: Body): ParameterNames;
  /** Undefined where an answer may be as long as the context allows. */
  maxTokens(body: Body): number | undefined;
  sampling(body: Body, vocabSize: number): SamplingParameters;
  prompts(body: Body, settings: ServerSettings): readonly PromptInput[];
  /** What else is asked of the answer; undefined where it is just text. */
  wish(body: Body): AnswerWish | undefined;
  /** Whether each answer begins with its prompt. */
  echoes(body: Body): boolean;
  /** What the answer will probably be. */
  expected?(body: Body): string | undefined;
}

export interface Visit {
  readonly context: ServerContext;
  readonly request: FastifyRequest;
}

/** How a protocol writes bodies and answers. */
export interface Protocol<Schema extends z.ZodObject, Body extends SamplingBody> {
  readonly idMark: string;
  readonly rules: BodyRules<Schema>;
  readonly kind: CompletionKind<Body>;
  /** The body in the words of OpenAI's chat or text completions. */
  read(given: z.infer<Schema>, visit: Visit): Body | Promise<Body>;
  /** Refuses what this model cannot do; gives what is to be said about the rest. */
  check?(given: z.infer<Schema>, model: ServedModel, visit: Visit): readonly string[];
  /** How long the model stays when nobody uses it after this; undefined leaves that as it is. */
  idleMs?(given: z.infer<Schema>, visit: Visit): number | undefined;
  /** Of a stream. */
  readonly framing: Framing;
  /** Whether the same tokens make the same events again, so that a client may come back to them. */
  readonly resumable: boolean;
  shape(options: ShapeOptions, given: z.infer<Schema>, visit: Visit): AnswerShape;
}

export const chatKind: CompletionKind<ChatBody> = {
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
  prompts: (body) => [
    { kind: 'chat', messages: body.messages, tools: toolOrder(body).shown, ...templateOptions(body) },
  ],
  wish: (body) => wishFor(structureOf(body), body.skip_special_tokens !== false, toolOrder(body)),
  echoes: () => false,
  expected: predictedText,
};

export const chatProtocol: Protocol<typeof chatRules.schema, ChatBody> = {
  idMark: 'chatcmpl-',
  rules: chatRules,
  kind: chatKind,
  read: (body) => body,
  framing: doneEvents,
  resumable: true,
  shape: chatShape,
};

export const textKind: CompletionKind<TextBody> = {
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
  wish(body) {
    const structure = structureOf(body);
    return structure && wishFor(structure, false);
  },
  echoes: ({ echo }) => echo === true,
};

export const textProtocol: Protocol<typeof textRules.schema, TextBody> = {
  idMark: 'cmpl-',
  rules: textRules,
  kind: textKind,
  read: (body) => body,
  framing: doneEvents,
  resumable: true,
  shape: textShape,
};

const infillKind: CompletionKind<InfillBody> = {
  names: () => ({ ...wireNames, prompt: 'input_prefix' }),
  maxTokens: infillMaxTokens,
  sampling(body, vocabSize) {
    const extras = { logprobs: undefined, maxTokens: this.maxTokens(body) };
    return samplingOf(body, extras, vocabSize, this.names(body));
  },
  prompts: ({ input_prefix: prefix = '', input_suffix: suffix = '', input_extra: files, prompt: begun }) => [
    { kind: 'gap', prefix, suffix, files, begun, suffixName: 'input_suffix' },
  ],
  wish: () => undefined,
  echoes: () => false,
};

export const infillProtocol: Protocol<typeof infillRules.schema, InfillBody> = {
  idMark: 'infill-',
  rules: infillRules,
  kind: infillKind,
  read: (body) => body,
  framing: namedEvents,
  resumable: true,
  shape: infillShape,
};
