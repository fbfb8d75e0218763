// Ollama's chat, generate and raw generate as protocols of this server.

import { roomOf } from '../../generation/context-room.ts';
import type { ParameterNames } from '../../generation/generation-error.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { badRequest } from '../http/errors.ts';
import { jsonLines } from '../http/sse.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { chatKind } from '../openai/chat.ts';
import { textKind } from '../openai/completions.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type { TextBody } from '../openai/schemas/completions.ts';
import type { Caller } from '../request/auth.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { decidesKeepAlive, idleMsOf } from './keep-alive.ts';
import { resolveModel } from './names.ts';
import { optionNames } from './options.ts';
import { type GenerateBody, readChat, readGenerate, readRaw, readTemplated, withParameters } from './read.ts';
import { type ChatGiven, chatRules, type GenerateGiven, generateRules } from './schema.ts';
import { contextAfter, messageLayout, ollamaShape, responseLayout } from './shape.ts';

type Given = ChatGiven | GenerateGiven;

const namesWith = (prompt: string): ParameterNames => ({ ...wireNames, ...optionNames, prompt });

/** The same kind, with Ollama's parameter names in its error messages. */
function renamed<Body>(kind: CompletionKind<Body>, prompt: string): CompletionKind<Body> {
  return {
    ...kind,
    names: () => namesWith(prompt),
    responseFormat(body) {
      const format = kind.responseFormat(body);
      return format && { ...format, names: { responseFormat: 'format', tools: 'tools' } };
    },
  };
}

const rawKind: CompletionKind<TextBody> = {
  ...renamed(textKind, 'prompt'),
  // Unlike OpenAI's completions, there is no default limit.
  maxTokens: ({ max_tokens }) => max_tokens,
};

const common = {
  framing: jsonLines,
  resumable: false,
  check: (given: Given, model: ServedModel | undefined, { caller }: RequestContext) =>
    model === undefined
      ? remoteNotes(given)
      : [...thinkingNotes(given, model), ...roomNotes(given, model), ...keepAliveNotes(given, caller)],
  fieldNames: {
    stop: 'options.stop',
    max_tokens: 'options.num_predict',
    response_format: 'format',
    reasoning_effort: 'think',
    chat_template_kwargs: 'think',
  },
  idleMs: ({ keep_alive }: Given, { caller }: RequestContext) => idleMsOf(keep_alive, caller),
};

export const chatProtocol: Protocol<typeof chatRules.schema, ChatBody> = {
  ...common,
  idMark: 'ollama-chat-',
  rules: chatRules,
  kind: renamed(chatKind, 'messages'),
  read(given, { context }) {
    const { entry, created } = resolveModel(context, given.model);
    return readChat(withParameters(given, created), entry.name, created);
  },
  shape: (options, { model }) => ollamaShape(options, model, messageLayout),
};

const generateIds = { idMark: 'ollama-gen-', rules: generateRules };

const generateKind: CompletionKind<GenerateBody> = {
  ...renamed<GenerateBody>(chatKind, 'prompt'),
  prompts: ({ context: before, ...body }, settings) =>
    chatKind.prompts(body, settings).map((input) => (input.kind === 'chat' ? { ...input, before } : input)),
};

export const generateProtocol: Protocol<typeof generateRules.schema, GenerateBody> = {
  ...common,
  ...generateIds,
  kind: generateKind,
  read(given, { context }) {
    const { entry, created } = resolveModel(context, given.model);
    return readGenerate(withParameters(given, created), entry.name, created);
  },
  shape: (options, { model }) => ollamaShape(options, model, responseLayout, contextAfter(options)),
};

export const rawProtocol: Protocol<typeof generateRules.schema, TextBody> = {
  ...common,
  ...generateIds,
  kind: rawKind,
  read(given, { context }) {
    const { entry, created } = resolveModel(context, given.model);
    return readRaw(withParameters(given, created), entry.name);
  },
  shape: (options, { model }) => ollamaShape(options, model, responseLayout),
};

export const templatedProtocol: Protocol<typeof generateRules.schema, TextBody> = {
  ...rawProtocol,
  read(given, { context }) {
    const { entry, created } = resolveModel(context, given.model);
    return readTemplated(withParameters(given, created), entry.name, created);
  },
};

export const templatedChatProtocol: Protocol<typeof chatRules.schema, TextBody> = {
  ...common,
  idMark: 'ollama-chat-',
  rules: chatRules,
  kind: rawKind,
  read(given, { context }) {
    const { entry, created } = resolveModel(context, given.model);
    return readTemplated(withParameters(given, created), entry.name, created);
  },
  shape: (options, { model }) => ollamaShape(options, model, messageLayout),
};

/** Warns of, or refuses, what the model's template cannot do. */
function thinkingNotes({ think, model: name }: Given, { template }: ServedModel): string[] {
  if (think === undefined || template === undefined) return [];
  if (!template.format.format.reasons) {
    if (think === false) return [];
    throw badRequest('think', `the model '${name}' does not think`, 'unsupported_parameter');
  }
  const knows = (word: RegExp) => word.test(template.source);
  if (typeof think === 'string') {
    return knows(/\breasoning_effort\b/) ? [] : ['think: the model knows no levels; it thinks its own way'];
  }
  return knows(/\b(enable_thinking|thinking)\b/)
    ? []
    : ['think: the model cannot be told whether to think; it does as it was trained'];
}

/** What a model that is elsewhere has no use for. */
function remoteNotes({ options, keep_alive: kept }: Given): string[] {
  return [
    ...(options?.num_ctx === undefined ? [] : ["options.num_ctx: the context is the upstream's own"]),
    ...(kept === undefined ? [] : ['keep_alive: the model is not loaded here']),
  ];
}

/** A warning is enough: a prompt that does not fit the model is refused in any case. */
export function roomNotes({ options }: Pick<Given, 'options'>, model: ServedModel): string[] {
  const room = roomOf(model);
  const wanted = options?.num_ctx ?? 0;
  return wanted > room ? [`options.num_ctx: this model takes ${room} tokens, not ${wanted}`] : [];
}

export function keepAliveNotes({ keep_alive }: Pick<Given, 'keep_alive'>, caller: Caller): string[] {
  if (keep_alive === undefined || decidesKeepAlive(caller)) return [];
  return ['keep_alive: only admin keys decide how long a model stays'];
}
